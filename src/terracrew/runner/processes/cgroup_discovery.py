"""Finds where this runner may make cgroups: below the cgroup that it runs in itself, if that was delegated to it."""

import hashlib
import os
from pathlib import Path

from terracrew.errors import TerracrewError
from terracrew.runner.processes.cgroups import Cgroups

AUTOMATIC, OFF = "auto", "off"
_SYSTEMD = Path("/run/systemd/system")


class NoCgroups(TerracrewError):
    """No cgroup can be made here; the message says why."""

    code = "no_cgroups"


def find(setting: str, instance_key: str) -> Cgroups:
    """Return the cgroups of the runner with this key; `setting` as for `parent_of_runners`."""
    parent = parent_of_runners(setting)
    # Two runners in one cgroup have different keys, so neither sees the other's directory as its own.
    name = "terracrew-" + hashlib.sha256(instance_key.encode()).hexdigest()[:16]
    try:
        return Cgroups(parent / name)
    except OSError as error:
        raise NoCgroups(f"{parent / name} cannot be made: {error.strerror}") from error


def parent_of_runners(setting: str) -> Path:
    """Return the cgroup in which a runner makes its own. `setting` is `auto`, `off`, or the directory of a cgroup."""
    if setting == OFF:
        raise NoCgroups("the setting working_directory.cgroup is off")
    parent = _own() if setting == AUTOMATIC else Path(setting)
    if not (parent / "cgroup.procs").exists():
        raise NoCgroups(f"{parent} is not the directory of a cgroup")
    if setting == AUTOMATIC and not _is_delegated(parent):
        raise NoCgroups(f"{parent} belongs to systemd: give the unit Delegate=yes")
    return parent


def _own() -> Path:
    """Return the directory of the cgroup that this process is in."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    inside = next((line.removeprefix("0::") for line in lines if line.startswith("0::")), None)
    if inside is None:
        raise NoCgroups("this kernel has no cgroups of version 2")
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        mount, _, kind = line.partition(" - ")
        root, point = mount.split()[3:5]
        if kind.split()[0] == "cgroup2" and (inside + "/").startswith(root.rstrip("/") + "/"):
            return Path(point) / inside.removeprefix(root.rstrip("/")).lstrip("/")
    raise NoCgroups("no file system of type cgroup2 that shows this process is mounted")


def _is_delegated(directory: Path) -> bool:
    """Return whether a process may divide this cgroup. Where systemd runs, it owns every cgroup that it has not delegated."""
    owner = directory.stat().st_uid
    if not _SYSTEMD.exists() or (owner == os.geteuid() and owner != 0):
        return True
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(directory, name) == b"1":
                return True
        except OSError:
            continue
    return False
