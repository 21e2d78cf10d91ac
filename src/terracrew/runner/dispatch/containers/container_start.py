"""Rewrites the start of an executor for a container, where every path is another one than on the runner's machine."""

import fnmatch
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from terracrew.executor.container import paths
from terracrew.protocol.start import ExecutorStart, IsolationSettings


class BoundPath(Protocol):
    """A path of the host that the container has."""

    @property
    def target(self) -> str: ...
    @property
    def is_read_only(self) -> bool: ...


def inside(
    start: ExecutorStart, environment: Mapping[str, str], *, waits_for_server: bool, slots: int = 1
) -> ExecutorStart:
    """Return the start of an executor with the paths of its container instead of the runner's.

    `slots` is how many containers share the memory that the executor sees: only one if the container has its own limit.
    """
    name = Path(start.directory).name
    given = start.isolation
    isolation = IsolationSettings(
        given.mode,
        given.read_paths,
        [*given.write_paths, str(paths.HOME), str(paths.TEMP)],
        [str(paths.ATTEMPTS)],
    )
    return msgspec.structs.replace(
        start,
        directory=str(paths.attempt(name)),
        cache_directory=str(paths.CACHE),
        workspaces=str(paths.WORKSPACES),
        engine_directory=str(paths.ENGINE_FILES / name),
        environment=dict(environment),
        isolation=isolation,
        waits_for_server=waits_for_server,
        slots=slots,
        warm=None,  # the disk of the container does not outlive it
    )


def with_bindings(isolation: IsolationSettings, bound: Iterable[BoundPath]) -> IsolationSettings:
    """Let engines reach the paths of the host that the container has, except the cache, which executors let them read parts of."""
    bound = [each for each in bound if each.target != str(paths.SHARED_CACHE)]
    return msgspec.structs.replace(
        isolation,
        read_paths=[*isolation.read_paths, *(each.target for each in bound if each.is_read_only)],
        write_paths=[*isolation.write_paths, *(each.target for each in bound if not each.is_read_only)],
    )


def chosen(environment: Mapping[str, str], patterns: Iterable[str]) -> dict[str, str]:
    """Return the runner's variables whose names match one of the patterns."""
    patterns = list(patterns)
    return {
        name: value
        for name, value in environment.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    }
