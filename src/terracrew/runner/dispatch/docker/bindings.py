"""Reads `BIND_PATH`: the directory of the host for the attempts' files, and paths of the host that every container gets.

Only the settings of the runner name them; a job cannot ask for one. What is bound is readable for the module of every job, so what
would give a module the host, or replace what the container itself relies on, is refused.
"""

from collections.abc import Iterable
from pathlib import PurePosixPath

import msgspec

from terracrew.executor.container import paths

_KERNEL = tuple(map(PurePosixPath, ("/proc", "/sys", "/dev")))
_SOCKETS = tuple(
    map(PurePosixPath, ("/run/docker.sock", "/run/docker", "/run/containerd", "/run/podman", "/run/crio", "/run/user"))
)
"""The sockets of container engines, or the directories that hold them; those of engines without root are in `/run/user`."""
_STORES = tuple(map(PurePosixPath, ("/var/lib/docker", "/var/lib/containerd", "/var/lib/containers")))
"""Where container engines keep volumes, such as those of attempts."""
_RUN_LINK, _RUN = PurePosixPath("/var/run"), PurePosixPath("/run")
_OF_CONTAINER = (PurePosixPath(paths.ROOT), *_KERNEL)
"""Directories of the container in which nothing of the host may be."""
_IN_MEMORY = (PurePosixPath("/tmp"), PurePosixPath("/run"))  # noqa: S108 - a path in the container


class HostBinding(msgspec.Struct, frozen=True):
    """A path of the daemon's host that is in every container that runs a job."""

    source: str
    target: str
    is_read_only: bool = False

    @property
    def mount(self) -> dict[str, object]:
        """The mount in the API of the daemon. In this form, a missing path is an error and is not made."""
        return {"Type": "bind", "Source": self.source, "Target": self.target, "ReadOnly": self.is_read_only}


class Bound(msgspec.Struct, frozen=True):
    directory: str = ""
    """Holds the attempts' directories."""
    bindings: tuple[HostBinding, ...] = ()


def parse(text: str) -> Bound:
    """Read entries that are separated by commas: one path alone, and any number of `host:container` with `:ro` or `:rw`."""
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    alone = [entry for entry in entries if ":" not in entry]
    if not entries or len(alone) > 1:
        raise ValueError(f"{text!r} is not one directory of the host, or bindings such as `/srv/aws:/home/aws:ro`")
    bindings = tuple(_binding(entry) for entry in entries if ":" in entry)
    targets = [each.target for each in bindings]
    if twice := sorted({each for each in targets if targets.count(each) > 1}):
        raise ValueError(f"{twice[0]!r} is bound twice")
    directories = [_path(each) for each in alone]
    for each in bindings:
        if _overlap(PurePosixPath(each.source), directories):
            raise ValueError(
                f"{each.source!r} is, has or is in {alone[0]!r}: jobs would see the files of other attempts"
            )
    return Bound(str(directories[0]) if directories else "", bindings)


def _binding(entry: str) -> HostBinding:
    source, _, rest = entry.partition(":")
    target, _, mode = rest.partition(":")
    if mode not in ("", "ro", "rw"):
        raise ValueError(f"{entry!r} is not a path of the host, a path in the container, and `ro` or nothing")
    host, inside = _path(source), _path(target)
    if _overlap(host, _SOCKETS):
        raise ValueError(
            f"{str(host)!r} is or has the socket of a container engine, with which a module would own the host"
        )
    if _overlap(host, _KERNEL):
        raise ValueError(f"{str(host)!r} is a directory of the host's kernel, with which a module would own the host")
    if _overlap(host, _STORES):
        raise ValueError(f"{str(host)!r} is or has volumes of other containers, such as the files of other attempts")
    if _overlap(inside, _OF_CONTAINER) or inside in _IN_MEMORY:
        raise ValueError(f"{str(inside)!r} is or has a directory that the container needs itself: choose another path")
    if inside == PurePosixPath(paths.SHARED_CACHE) and mode == "ro":
        raise ValueError(f"{str(inside)!r} is the cache of executors, who write to it: bind it without `:ro`")
    return HostBinding(str(host), str(inside), mode == "ro")


def _overlap(path: PurePosixPath, others: Iterable[PurePosixPath]) -> bool:
    """Return whether a path is, has, or is in one of the others."""
    one = _followed(path)
    return any(one.is_relative_to(each) or each.is_relative_to(one) for each in map(_followed, others))


def _followed(path: PurePosixPath) -> PurePosixPath:
    """Return a path with the one link that all hosts have. Others cannot be followed here: the daemon may be on another machine."""
    return _RUN / path.relative_to(_RUN_LINK) if path.is_relative_to(_RUN_LINK) else path


def _path(text: str) -> PurePosixPath:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or not text.isprintable():
        raise ValueError(f"{text!r} is not an absolute path without `..`")
    return PurePosixPath("/", *path.parts[1:])
