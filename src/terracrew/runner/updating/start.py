"""Replaces `terracrew runner start` by the launcher, for a runner that updates itself."""

from pathlib import Path
from typing import NoReturn

from terracrew import __version__
from terracrew.runner import handover, instance
from terracrew.runner.config import RunnerConfig
from terracrew.runner.updating import versions
from terracrew.source_rules.version_ranges import parse_version


def become(config: RunnerConfig, file: str | None, options: dict[str, str], flags: dict[str, str]) -> NoReturn:
    """Lock the working directory, and become the launcher. Raises Conflict if another runner uses the directory."""
    lock = instance.lock(config.working_directory)
    prefer_environment(versions.folder_of(Path(config.working_directory)), __version__)
    handover.become_launcher(config, file, options, flags, lock)


def prefer_environment(folder: Path, installed: str) -> None:
    """Forget those versions that this runner installed, if people have installed one that is as new, or newer."""
    current, own = versions.read(folder), parse_version(installed)
    version, former = parse_version(current.version), parse_version(current.former)
    if version is not None and own is not None and own.order >= version.order:
        versions.forget(folder)
    elif former is not None and own is not None and own.order >= former.order:
        versions.forget_former(folder)  # the last update brings a newer one, but it may have failed, or may fail
