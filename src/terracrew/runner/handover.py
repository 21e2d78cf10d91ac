"""Replaces the command `terracrew runner start` by the runner process, which never loads the code that checks settings."""

import os
import sys
from typing import NamedTuple, NoReturn

import msgspec

from terracrew.runner import environment, installation
from terracrew.runner.config import RunnerConfig
from terracrew.runner.one_job import OneJobSettings
from terracrew.system import own_program

LAUNCHER = "terracrew.runner.updating.launcher"
"""It is started by its name, because it imports nothing of this file."""


class SettingsSource(msgspec.Struct, frozen=True):
    """What the settings were read from, so that they can be read again."""

    file: str | None
    options: dict[str, str]
    flags: dict[str, str]
    environment: dict[str, str]
    """The variables that the runner's own environment does not have any more, because some of them are secrets."""

    def __repr__(self) -> str:
        return f"SettingsSource({self.file!r})"


class Launch(msgspec.Struct, frozen=True):
    """What a launcher starts a version of the runner with (`updating`). The launcher may be older or newer than that version, so
    what it does not know is ignored, and what it does not say has a default."""

    working_directory: str
    lock: int
    """The descriptor of the lock of the working directory, which the version inherits; -1 if it only checks the settings."""
    file: str | None = None
    options: dict[str, str] = {}
    flags: dict[str, str] = {}
    environment: dict[str, str] = {}
    """The variables that the launcher's own environment does not have, because some of them are secrets."""
    is_on_trial: bool = False

    def __repr__(self) -> str:
        return f"Launch({self.working_directory!r})"


class Launched(msgspec.Struct, frozen=True):
    """What a runner knows of its launcher."""

    lock: int
    is_on_trial: bool = False


class Handover(NamedTuple):
    config: RunnerConfig
    source: SettingsSource | None = None
    one_job: OneJobSettings | None = None
    """Set if the runner ends after one job."""
    launched: Launched | None = None
    """Set if the runner has a launcher, so that it can update itself."""


def offer(
    config: RunnerConfig,
    source: SettingsSource | None = None,
    one_job: OneJobSettings | None = None,
    launched: Launched | None = None,
) -> int:
    """Write the settings to a file without a path and return its descriptor, which the new program inherits."""
    return _for_program("runner-config", Handover(config, source, one_job, launched))


def offer_launch(launch: Launch) -> int:
    """Do the same with what a launcher or a version needs to read the settings."""
    return _for_program("launch", launch)


def _for_program(name: str, content: Handover | Launch) -> int:
    descriptor = in_memory(name, msgspec.json.encode(content))
    os.set_inheritable(descriptor, True)
    return descriptor


def in_memory(name: str, content: bytes) -> int:
    """Return the descriptor of a file that has no path. Unlike a pipe, it can hold content of any size before anything reads it."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor


def accept(descriptor: int) -> Handover:
    with open(descriptor, "rb") as file:
        file.seek(0)
        return msgspec.json.decode(file.read(), type=Handover)


def become(
    config: RunnerConfig,
    file: str | None,
    options: dict[str, str],
    flags: dict[str, str],
    one_job: OneJobSettings | None = None,
    launched: Launched | None = None,
) -> NoReturn:
    """Replace this process by the runner. Its environment has no secret of Terracrew, because engines inherit it."""
    kept, removed = _divided_environment(config)
    source = SettingsSource(file, options, flags, removed)
    _execute(command(offer(config, source, one_job, launched)), kept)


def why_not_launched(config: RunnerConfig, one_job: OneJobSettings | None) -> str:
    """Say why a runner whose settings allow it does not update itself; '' if it does."""
    if one_job is not None:
        return "it ends after one job"
    return installation.why_not_self_updating(config.installation)


def become_launcher(
    config: RunnerConfig, file: str | None, options: dict[str, str], flags: dict[str, str], lock: int
) -> NoReturn:
    """Replace this process by the launcher, which starts the runner. The lock of the working directory is held from now on."""
    kept, removed = _divided_environment(config)
    launch = Launch(config.working_directory, lock, file, options, flags, removed)
    os.set_inheritable(lock, True)
    _execute(own_program.command(LAUNCHER, str(offer_launch(launch))), kept)


def _divided_environment(config: RunnerConfig) -> tuple[dict[str, str], dict[str, str]]:
    """Return the variables that a long-lived process keeps, and those that it gets in another way."""
    without = {name: value for name, value in os.environ.items() if name not in config.secret_variables}
    kept = environment.for_zygote(without, is_built_in=False)
    return kept, {name: value for name, value in os.environ.items() if name not in kept}


def _execute(arguments: list[str], kept: dict[str, str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, arguments, kept)  # noqa: S606


def command(settings: int) -> list[str]:
    """Return the command line of the runner process."""
    return own_program.command("terracrew.runner", str(settings))
