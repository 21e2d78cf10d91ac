"""What the processes of an attempt use and can use, and which of its limits the kernel enforces as well."""

import contextlib
import os
from collections.abc import Iterator
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


CGROUP_ROOT, OWN_CGROUP, MEMORY_INFO = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/meminfo")


def share_mb(limit_mb: int | None, slots: int, own_cgroup: Path | None = None) -> int | None:
    """Return the megabytes for one of the attempts that may run at once; None if nothing says how much there is.

    `limit_mb` is the limit of the attempt. Its own cgroup, if it has one, has that limit and some room for the executor. No other
    attempt shares it.
    """
    shared = [found // max(slots, 1) for found in (*_cgroup_limits_mb(own_cgroup), *_machine_mb())]
    return min(shared if limit_mb is None else [*shared, limit_mb], default=None)


def _cgroup_limits_mb(own_cgroup: Path | None) -> Iterator[int]:
    """Yield the limits of this process's cgroup and of all cgroups above, of both versions, without that of the attempt's own one."""
    with contextlib.suppress(OSError):
        for line in OWN_CGROUP.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                yield from _limits_mb(CGROUP_ROOT, path, "memory.max", own_cgroup)
            elif "memory" in controllers.split(","):
                yield from _limits_mb(CGROUP_ROOT / "memory", path, "memory.limit_in_bytes", own_cgroup)


def _limits_mb(root: Path, path: str, name: str, own_cgroup: Path | None) -> Iterator[int]:
    own, place = str(own_cgroup), path.strip("/")
    while True:
        folder = f"{root}/{place}".rstrip("/")
        if folder != own:
            with contextlib.suppress(OSError, ValueError), open(f"{folder}/{name}") as file:
                yield int(file.read()) >> 20  # otherwise, it has no limit, or is outside of this container
        if not place:
            return
        place = place.rpartition("/")[0]


def _machine_mb() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for line in MEMORY_INFO.read_text().splitlines():
            if line.startswith("MemTotal:"):
                yield int(line.split()[1]) >> 10
