"""The memory of engines: how many of their processes the kernel has killed, and how seldom they collect garbage.

An engine is a short-lived process: at Go's default, its collector runs many times while it starts, and frees almost nothing. So it runs
less often in an engine and its providers, within a bound.
"""

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path


class OomKills:
    """The counter of the nearest cgroup of this process that has a memory controller. Its file is searched for once."""

    def __init__(self, proc: Path = Path("/proc/self")) -> None:
        self._files = _candidates(proc)

    def count(self) -> int:
        """Return the number of kills so far, or 0 if the kernel does not report it."""
        for file in self._files:
            try:
                with open(file) as opened:
                    text = opened.read()
            except OSError:
                continue
            for line in text.splitlines():
                name, _, count = line.partition(" ")
                if name == "oom_kill" and count.strip().isdigit():
                    self._files = [file]
                    return int(count)
        return 0


def _candidates(proc: Path) -> list[str]:
    """Return the files that may have the count, those of version 1 first: where its memory controller is mounted, version 2 has none."""
    try:
        groups = [line.split(":", 2) for line in (proc / "cgroup").read_text().splitlines()]
        mounts = _cgroup_mounts(proc)
    except (OSError, ValueError):
        return []
    found: list[str] = []
    for controllers, kind, file in (("memory", "cgroup", "memory.oom_control"), ("", "cgroup2", "memory.events")):
        for _, names, path in (group for group in groups if len(group) == 3):
            if controllers in names.split(","):
                found += [
                    os.path.join(folder, file)
                    for root, point, is_kind, options in mounts
                    if is_kind == kind and (not controllers or controllers in options)
                    for folder in _upwards(_inside(root, point, path), point)
                ]
    return found


def _upwards(folder: str, top: str) -> list[str]:
    """Return a cgroup and those above it: an attempt's own cgroup has no memory controller, but that of the service above it may."""
    found = [folder]
    while len(folder) > len(top):
        found.append(folder := os.path.dirname(folder))
    return found


@cache
def _cgroup_mounts(proc: Path) -> list[tuple[str, str, str, list[str]]]:
    """Return where cgroups are mounted. A machine can have thousands of mounts, so forks use what their parent has read."""
    lines = (proc / "mountinfo").read_text().splitlines()
    return [_mount(line) for line in lines if " - cgroup" in line]


def _mount(line: str) -> tuple[str, str, str, list[str]]:
    """Return the root, the mount point, the file system and the options in a line of mountinfo."""
    fields, _, rest = line.partition(" - ")
    parts, tail = fields.split(), rest.split()
    return parts[3], parts[4], tail[0], tail[-1].split(",")


def _inside(root: str, point: str, path: str) -> str:
    """Return the directory of the cgroup below the mount point. In a container the mount may show only the container's own cgroup."""
    relative = os.path.relpath(path, root)
    return point if relative.startswith("..") else os.path.normpath(os.path.join(point, relative))


_PERCENT_VARIABLE, _LIMIT_VARIABLE = "GOGC", "GOMEMLIMIT"
_PERCENT = 240
"""The heap may grow by this much over what is in use before it is collected. Go's default is 100, so a process needs at most
(1 + 2.4) / (1 + 1) = 1.7 times the memory that it would need by default."""
_LIMIT_PERCENT = 50
"""Near this part of the attempt's memory, each process collects as often as it must. Its providers need the rest."""
_MIN_LIMIT_MB = 100
"""An engine needs about this much for a small plan. Below it, the limit would keep the collector busy all the time."""
_PROCESS_MEGABYTES = 400
"""What the engine and each provider may need with _PERCENT. With less, several of them can pass the attempt's memory together, although
each stays below its limit, and the limit can keep the collector of a large provider busy all the time."""


def collector_environment(base: Mapping[str, str], memory_mb: int | None, providers: int = 0) -> dict[str, str]:
    """Return the variables to add. Nothing is added where the owner of the runner or the module has chosen one of them, and where
    there is so little memory that the engine and its providers must not use more of it than by default."""
    if _PERCENT_VARIABLE in base or _LIMIT_VARIABLE in base:
        return {}
    if memory_mb is None:
        return {_PERCENT_VARIABLE: str(_PERCENT)}
    limit_mb = memory_mb * _LIMIT_PERCENT // 100
    is_scarce = providers > 0 and memory_mb < (1 + providers) * _PROCESS_MEGABYTES
    if limit_mb < _MIN_LIMIT_MB or is_scarce:
        return {}
    return {_PERCENT_VARIABLE: str(_PERCENT), _LIMIT_VARIABLE: f"{limit_mb}MiB"}
