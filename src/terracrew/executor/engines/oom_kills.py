"""Reads from the kernel how many processes of our cgroup it has killed because memory ran out."""

import os
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
