"""Replaces the command `terracrew runner start` by the runner process, which never loads the code that checks settings."""

import os
import sys
from typing import NamedTuple, NoReturn

import msgspec

from terracrew import own_program
from terracrew.runner import engine_users, environment, installation
from terracrew.runner.config import RunnerConfig
from terracrew.runner.one_job import OneJobSettings


class SettingsSource(msgspec.Struct, frozen=True):
    """What the settings were read from, so that they can be read again."""

    file: str | None
    options: dict[str, str]
    flags: dict[str, str]
    environment: dict[str, str]
    """The variables that the runner's own environment does not have any more, because some of them are secrets."""

    def __repr__(self) -> str:
        return f"SettingsSource({self.file!r})"


class Handover(NamedTuple):
    config: RunnerConfig
    source: SettingsSource | None = None
    one_job: OneJobSettings | None = None
    """Set if the runner ends after one job."""


def offer(config: RunnerConfig, source: SettingsSource | None = None, one_job: OneJobSettings | None = None) -> int:
    """Write the settings to a file without a path and return its descriptor, which the new program inherits."""
    descriptor = in_memory("runner-config", msgspec.json.encode(Handover(config, source, one_job)))
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
) -> NoReturn:
    """Replace this process by the runner. Its environment has no secret of Terracrew, because engines inherit it."""
    without = {name: value for name, value in os.environ.items() if name not in config.secret_variables}
    kept = environment.for_zygote(without, is_built_in=False)
    removed = {name: value for name, value in os.environ.items() if name not in kept}
    source = SettingsSource(file, options, flags, removed)
    config = msgspec.structs.replace(config, installation=installation.find(os.environ))
    arguments = command(config, offer(config, source, one_job))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, arguments, kept)  # noqa: S606


def command(config: RunnerConfig, settings: int) -> list[str]:
    """Return the command line of the runner process. It forks a zygote before it reads its settings, if it needs one."""
    local = [config.executor_entry, *config.engine_paths] if config.dispatcher == engine_users.DISPATCHER else []
    return own_program.command("terracrew.runner", str(settings), *local)
