"""How much memory an attempt can count on: its own limit, and its share of what the cgroup or the machine has."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

_ROOT, _OWN, _MACHINE = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"), Path("/proc/meminfo")


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
        for line in _OWN.read_text().splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0":
                yield from _limits_mb(_ROOT, path, "memory.max", own_cgroup)
            elif "memory" in controllers.split(","):
                yield from _limits_mb(_ROOT / "memory", path, "memory.limit_in_bytes", own_cgroup)


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
        for line in _MACHINE.read_text().splitlines():
            if line.startswith("MemTotal:"):
                yield int(line.split()[1]) >> 10
