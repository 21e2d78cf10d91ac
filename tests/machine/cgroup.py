"""A cgroup for one run of the tests: what killed runners leave in it is removed with it."""

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from terracrew.runner.processes import cgroups
from terracrew.runner.processes.cgroups import NoCgroups

_PREFIX = "terracrew-tests-"


def enter() -> Path | None:
    """Move this process, and with it all that it starts, into a new cgroup; None where none can be made."""
    try:
        path = cgroups.parent_of_runners("auto") / f"{_PREFIX}{os.getpid()}"
        path.mkdir()
    except (NoCgroups, OSError):
        return None
    return path if cgroups.join(str(path)) else None


@contextlib.contextmanager
def outside() -> Generator[None]:
    """Be in the cgroup above the run's own for a moment: a process that is started there may outlive the run."""
    try:
        own = cgroups.parent_of_runners("auto")
    except NoCgroups:
        own = Path()
    is_of_run = own.name.startswith(_PREFIX) and cgroups.join(str(own.parent))
    try:
        yield
    finally:
        if is_of_run:
            cgroups.join(str(own))


def leave(path: Path) -> None:
    cgroups.join(str(path.parent))
    for folder, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def parent() -> Path:
    """The cgroup of this run; a test that needs one is skipped where there is none."""
    try:
        found = cgroups.parent_of_runners("auto")
    except NoCgroups as reason:
        pytest.skip(str(reason))
    if not os.access(found, os.W_OK):
        pytest.skip(f"no cgroup can be made in {found}")
    return found
