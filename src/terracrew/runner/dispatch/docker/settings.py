"""The settings of the dispatcher `docker`: `job_dispatcher.data`, or variables TERRACREW_JOB_DISPATCHER_DATA_<NAME>."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.runner.dispatch.containers import values
from terracrew.runner.dispatch.containers.values import SettingsReader
from terracrew.runner.dispatch.docker import bindings
from terracrew.runner.dispatch.docker.bindings import Bound, HostBinding

_SHIFTS = {"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_MIN_MEMORY_BYTES = 6 << 20
"""Docker refuses less."""
_HOST_ENTRY = re.compile(r"[A-Za-z0-9_.-]+[:=][0-9A-Fa-f.:\[\]]+|[A-Za-z0-9_.-]+[:=]host-gateway")
_NETWORK = re.compile(r"[A-Za-z0-9][\w.-]*(:[\w.-]+)?", re.ASCII)


class DockerSettings(msgspec.Struct, frozen=True):
    image: str
    host: str = ""
    """The address of the daemon. Empty means the usual socket."""
    is_local_image: bool = False
    """Whether the daemon has the image already, so that it is never pulled."""
    extra_hosts: list[str] = []
    memory_bytes: int = 0
    """The most memory that a container may use; 0 means no limit."""
    cpus: float = 0.0
    """The most processors that a container may use; 0 means no limit."""
    pids: int = 4096
    bind_path: str = ""
    """The directory of the daemon's host that holds the attempts' directories. Without it, each attempt has a volume."""
    bindings: tuple[HostBinding, ...] = ()
    """Paths of the daemon's host that are in every container that runs a job."""
    network: str = ""
    """The network of the containers; empty means the daemon's default."""
    environment: list[str] = []
    """The names of the runner's own variables that engines get; `*` stands for any characters."""
    engines: dict[str, list[str]] = {}
    """The engines of the image, each with its versions; empty means that the image is asked."""
    has_spare: bool = True
    """Whether a container is kept ready for the next job for a while after each job."""
    pull_seconds: float = 900.0
    registry_username: str = ""
    registry_password: str = ""

    def __repr__(self) -> str:
        return f"DockerSettings({self.image!r}, host={self.host!r})"


def with_choice(chosen: DockerSettings, choice: DispatcherChoice) -> DockerSettings:
    """Return the settings for a job that asks for an image, memory or processors. The allow-list has been checked."""
    return msgspec.structs.replace(
        chosen,
        image=choice.image or chosen.image,
        memory_bytes=chosen.memory_bytes if choice.memory_mb is None else choice.memory_mb << 20,
        cpus=chosen.cpus if choice.cpu is None else choice.cpu,
    )


def sharing(chosen: DockerSettings, slots: int) -> int:
    """Return how many containers of a runner share the memory that one of them can use. Without a limit, all of them share that of
    their machine."""
    return 1 if chosen.memory_bytes else slots


def memory(text: str) -> int:
    """Return a number of bytes from text such as `42 MB`, `512m` or `1.5 GiB`. All units are powers of 1024, as Docker's are."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2].lower() not in _SHIFTS:
        raise ValueError(f"{text!r} is not an amount of memory such as `512 MB` or `2 GB`")
    size = int(float(found[1]) * (1 << _SHIFTS[found[2].lower()]))
    if size < _MIN_MEMORY_BYTES:
        raise ValueError(f"{text!r} is less than the 6 MB that Docker allows")
    return size


def _host(text: str) -> str:
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme not in ("unix", "tcp", "http", "https") or not rest:
        raise ValueError(f"{text!r} is not an address such as `unix:///var/run/docker.sock` or `tcp://10.0.0.5:2376`")
    return text.strip()


def _cpus(text: str) -> float:
    try:
        count = float(text)
    except ValueError:
        count = 0.0
    if not 0.01 <= count <= 10_000:
        raise ValueError(f"{text!r} is not a number of processors such as `1.5`")
    return count


def _pids(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 16:
        raise ValueError(f"{text!r} is not a number of processes of at least 16")
    return int(text)


def _credential(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


def _check(data: Mapping[str, str], _found: Mapping[str, Any]) -> dict[str, str]:
    wrong: dict[str, str] = {}
    if "image" not in data:
        wrong["image"] = "the dispatcher `docker` needs the image of executors"
    if ("registry_username" in data) != ("registry_password" in data):
        missing = "registry_password" if "registry_username" in data else "registry_username"
        wrong[missing] = "a registry needs both a user name and a password"
    return wrong


def _settings(bound: Bound | None = None, **found: Any) -> DockerSettings:
    bound = bound or Bound()
    return DockerSettings(bind_path=bound.directory, bindings=bound.bindings, **found)


_PARSERS: dict[str, Callable[[str], Any]] = {
    "image": values.image,
    "host": _host,
    "local_image": values.boolean,
    "extra_hosts": values.words("a host and its address such as `db.example:10.0.0.7`", _HOST_ENTRY),
    "memory_limit": memory,
    "cpu_limit": _cpus,
    "pids_limit": _pids,
    "bind_path": bindings.parse,
    "network": values.matching("the name of a network", _NETWORK),
    "environment": values.variables,
    "engines": values.engines,
    "spare": values.boolean,
    "pull_seconds": values.seconds,
    "registry_username": _credential,
    "registry_password": _credential,
}
_FIELDS = {
    "local_image": "is_local_image",
    "memory_limit": "memory_bytes",
    "cpu_limit": "cpus",
    "pids_limit": "pids",
    "spare": "has_spare",
    "bind_path": "bound",
}
_READER = SettingsReader("docker", _settings, _PARSERS, _check, _FIELDS)
parse, problems = _READER.parse, _READER.problems
