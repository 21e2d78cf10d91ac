"""Reads `BIND_PATH`: the directory of the host for the attempts' files, and paths of the host that every container gets.

Only the settings of the runner name them; a job cannot ask for one. What is bound is readable for the module of every job, so what
would give a module the host, or replace what the container itself relies on, is refused.
"""

from pathlib import PurePosixPath

import msgspec

from terracrew.executor.container import paths

_SOCKETS = (PurePosixPath("/var/run/docker.sock"), PurePosixPath("/run/docker.sock"))
_OF_CONTAINER = tuple(map(PurePosixPath, (paths.ROOT, "/proc", "/sys", "/dev")))
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
    return Bound(str(_path(alone[0])) if alone else "", bindings)


def _binding(entry: str) -> HostBinding:
    source, _, rest = entry.partition(":")
    target, _, mode = rest.partition(":")
    if mode not in ("", "ro", "rw"):
        raise ValueError(f"{entry!r} is not a path of the host, a path in the container, and `ro` or nothing")
    host, inside = _path(source), _path(target)
    if any(socket.is_relative_to(host) for socket in _SOCKETS):
        raise ValueError(f"{str(host)!r} is or has the socket of the daemon, with which a module would own the host")
    is_own = any(inside.is_relative_to(each) or each.is_relative_to(inside) for each in _OF_CONTAINER)
    if is_own or inside in _IN_MEMORY:
        raise ValueError(f"{str(inside)!r} is or has a directory that the container needs itself: choose another path")
    return HostBinding(str(host), str(inside), mode == "ro")


def _path(text: str) -> PurePosixPath:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or not text.isprintable():
        raise ValueError(f"{text!r} is not an absolute path without `..`")
    return PurePosixPath("/", *path.parts[1:])
