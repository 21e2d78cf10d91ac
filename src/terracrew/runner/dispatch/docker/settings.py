"""The settings of the dispatcher `docker`: `job_dispatcher.data`, or variables TERRACREW_JOB_DISPATCHER_DATA_<NAME>."""

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol.dispatcher_choice import DispatcherChoice

VARIABLE_PREFIX = "TERRACREW_JOB_DISPATCHER_DATA_"
_SHIFTS = {"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")
_MIN_MEMORY_BYTES = 6 << 20
"""Docker refuses less."""
_TRUE, _FALSE = ("true", "yes", "on", "1", "t", "y"), ("false", "no", "off", "0", "f", "n")
_IMAGE = re.compile(r"[a-z0-9][\w.:/@-]*", re.IGNORECASE | re.ASCII)
_HOST_ENTRY = re.compile(r"[A-Za-z0-9_.-]+[:=][0-9A-Fa-f.:\[\]]+|[A-Za-z0-9_.-]+[:=]host-gateway")
_NETWORK = re.compile(r"[A-Za-z0-9][\w.-]*(:[\w.-]+)?", re.ASCII)
_VARIABLE = re.compile(r"[A-Za-z_*][A-Za-z0-9_*]*")
_ENGINE = re.compile(r"([a-z][a-z0-9-]*)[ =]([\w.+-]+)", re.ASCII)


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
    network: str = ""
    """The network of the containers; empty means the daemon's default."""
    environment: list[str] = []
    """The names of the runner's own variables that engines get; `*` stands for any characters."""
    engines: dict[str, list[str]] = {}
    """The engines of the image, each with its versions; empty means that the image is asked."""
    pull_seconds: float = 900.0
    registry_username: str = ""
    registry_password: str = ""

    def __repr__(self) -> str:
        return f"DockerSettings({self.image!r}, host={self.host!r})"


def parse(data: Mapping[str, str]) -> DockerSettings:
    """Return the settings. Raises Invalid with everything that is wrong, each with the name of its variable."""
    values, problems = _read(data)
    if problems:
        raise Invalid("; ".join(f"{VARIABLE_PREFIX}{name.upper()}: {words}" for name, words in problems.items()))
    return DockerSettings(**values)


def with_choice(chosen: DockerSettings, choice: DispatcherChoice) -> DockerSettings:
    """Return the settings for a job that asks for an image, memory or processors. The allow-list has been checked."""
    return msgspec.structs.replace(
        chosen,
        image=choice.image or chosen.image,
        memory_bytes=chosen.memory_bytes if choice.memory_mb is None else choice.memory_mb << 20,
        cpus=chosen.cpus if choice.cpu is None else choice.cpu,
    )


def problems(data: Mapping[str, str]) -> dict[str, str]:
    """Return what is wrong, by the name of the setting."""
    return _read(data)[1]


def _read(data: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    found: dict[str, str] = {}
    values: dict[str, Any] = {}
    for name, text in data.items():
        if name not in _PARSERS:
            known = ", ".join(sorted(_PARSERS))
            found[name] = f"the dispatcher `docker` has no such setting; it has {known}"
            continue
        field, parser = _PARSERS[name]
        try:
            values[field] = parser(text)
        except ValueError as error:
            found[name] = str(error)
    if "image" not in data:
        found["image"] = "the dispatcher `docker` needs the image of executors"
    if ("registry_username" in data) != ("registry_password" in data):
        missing = "registry_password" if "registry_username" in data else "registry_username"
        found[missing] = "a registry needs both a user name and a password"
    return values, found


def memory(text: str) -> int:
    """Return a number of bytes from text such as `42 MB`, `512m` or `1.5 GiB`. All units are powers of 1024, as Docker's are."""
    found = _SIZE.fullmatch(text)
    if found is None or found[2].lower() not in _SHIFTS:
        raise ValueError(f"{text!r} is not an amount of memory such as `512 MB` or `2 GB`")
    size = int(float(found[1]) * (1 << _SHIFTS[found[2].lower()]))
    if size < _MIN_MEMORY_BYTES:
        raise ValueError(f"{text!r} is less than the 6 MB that Docker allows")
    return size


def boolean(text: str) -> bool:
    if text.strip().lower() in _TRUE:
        return True
    if text.strip().lower() in _FALSE:
        return False
    raise ValueError(f"{text!r} is neither `true` nor `false`")


def _image(text: str) -> str:
    if _IMAGE.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is not the name of an image such as `registry.example/terracrew-executor:1.0`")
    return text.strip()


def _host(text: str) -> str:
    scheme, separator, rest = text.strip().partition("://")
    if not separator or scheme not in ("unix", "tcp", "http", "https") or not rest:
        raise ValueError(f"{text!r} is not an address such as `unix:///var/run/docker.sock` or `tcp://10.0.0.5:2376`")
    return text.strip()


def _list(what: str, pattern: re.Pattern[str]) -> Callable[[str], list[str]]:
    def parser(text: str) -> list[str]:
        words = [word.strip() for word in text.split(",") if word.strip()]
        if wrong := [word for word in words if pattern.fullmatch(word) is None]:
            raise ValueError(f"{wrong[0]!r} is not {what}")
        return words

    return parser


def _path(text: str) -> str:
    path = PurePosixPath(text)
    if not path.is_absolute() or ".." in path.parts or ":" in text:
        raise ValueError(f"{text!r} is not an absolute path without `..` and `:`")
    return str(path)


def _network(text: str) -> str:
    if _NETWORK.fullmatch(text.strip()) is None:
        raise ValueError(f"{text!r} is not the name of a network")
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


def _seconds(text: str) -> float:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is not a number of seconds")
    return float(text)


def _engines(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for word in (word.strip() for word in text.split(",") if word.strip()):
        parts = _ENGINE.fullmatch(word)
        if parts is None:
            raise ValueError(f"{word!r} is not an engine and its version, such as `tofu 1.10.5`")
        found.setdefault(parts[1], []).append(parts[2])
    return found


def _text(text: str) -> str:
    if not text:
        raise ValueError("it is empty")
    return text


_PARSERS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "image": ("image", _image),
    "host": ("host", _host),
    "local_image": ("is_local_image", boolean),
    "extra_hosts": ("extra_hosts", _list("a host and its address such as `db.example:10.0.0.7`", _HOST_ENTRY)),
    "memory_limit": ("memory_bytes", memory),
    "cpu_limit": ("cpus", _cpus),
    "pids_limit": ("pids", _pids),
    "bind_path": ("bind_path", _path),
    "network": ("network", _network),
    "environment": ("environment", _list("the name of an environment variable", _VARIABLE)),
    "engines": ("engines", _engines),
    "pull_seconds": ("pull_seconds", _seconds),
    "registry_username": ("registry_username", _text),
    "registry_password": ("registry_password", _text),
}
"""The name of each variable without its prefix, the field that it sets, and what reads it."""
