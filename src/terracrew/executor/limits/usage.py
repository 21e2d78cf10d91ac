"""Measures what the processes of an attempt use, and which of its limits the kernel enforces as well."""

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from terracrew.system import procfs

_MEMORY_MAX, _MEMORY_HIGH, _PIDS_MAX = "memory.max", "memory.high", "pids.max"


class AttemptUsage(NamedTuple):
    memory_bytes: int
    processes: int
    """Processes and threads."""


def measure() -> AttemptUsage:
    """Return what all descendants of this process use together. The executor itself is not counted."""
    found = procfs.descendants(os.getpid())
    memory = sum(procfs.private_bytes(each.pid) for each in found)
    return AttemptUsage(memory, sum(each.stat.threads for each in found))


class KernelLimits:
    """The limits of the attempt's cgroup. The runner has set them, if its cgroup has the controllers for them."""

    def __init__(self, cgroup: str = "") -> None:
        """`cgroup` is the attempt's own cgroup; empty if it has none."""
        self.cgroup = Path(cgroup) if cgroup else None

    @property
    def has_memory(self) -> bool:
        return self._is_set(_MEMORY_MAX)

    @property
    def has_processes(self) -> bool:
        return self._is_set(_PIDS_MAX)

    def stop_slowing(self) -> None:
        """Let an engine that was interrupted use its memory up to the limit: slowed down, it could not save its state in time."""
        if self.cgroup is not None:
            with contextlib.suppress(OSError):
                (self.cgroup / _MEMORY_HIGH).write_text("max")

    def _is_set(self, name: str) -> bool:
        if self.cgroup is None:
            return False
        try:
            return (self.cgroup / name).read_text().strip() != "max"
        except OSError:
            return False
