"""What a container of an attempt looks like: its name, its labels, its limits and what it may not do."""

import re
from pathlib import Path
from typing import Any

from terracrew.attempt import files
from terracrew.executor.container import arrival, paths, user
from terracrew.runner.dispatch.containers import attempts
from terracrew.runner.dispatch.containers.attempts import InstanceOwner
from terracrew.runner.dispatch.docker.settings import DockerSettings

COMMAND = ["python3", "-P", "-m", "terracrew.executor.container"]
LABEL = "dev.terracrew"
SPARE_PREFIX = "spare-"
_MARK = re.compile(rf"([0-9a-f]{{64}})(?: ({SPARE_PREFIX}[0-9a-f]{{16}}))?")
_TMPFS = {"/tmp": "rw,exec,nosuid,nodev,mode=1777,size=256m", "/run": "rw,nosuid,nodev,mode=755,size=16m"}  # noqa: S108
_LOG_CONFIG = {"Type": "json-file", "Config": {"max-size": "1m", "max-file": "1"}}
"""The executor's own diagnostics are in its directory; here is only what went wrong before it had one."""


class ContainerOwner(InstanceOwner, frozen=True):
    dispatcher = "docker"

    @property
    def label(self) -> str:
        return f"{LABEL}.key={self.key}"

    def labels(self, attempt: str) -> dict[str, str]:
        return {
            f"{LABEL}.key": self.key,
            f"{LABEL}.runner": self.runner,
            f"{LABEL}.instance": self.instance,
            f"{LABEL}.attempt": attempt,
        }

    def name(self, attempt: str) -> str:
        """Return the name of the container and of the volume of an attempt."""
        return f"terracrew-{self.key}-{attempt}"


def write_mark(directory: Path, container: str, name: str) -> None:
    """Record, durably, that there may be a process of this attempt: the id of its container, and the container's name (`name_of`)."""
    text = container if name == directory.name else f"{container} {name}"
    attempts.write_mark(directory, text.encode())


def is_ours(directory: Path) -> bool:
    """Return whether the mark of an attempt is that of a container."""
    return _MARK.fullmatch((directory / files.CONTAINER).read_text(errors="replace")) is not None


def name_of(directory: Path) -> str:
    """Return what the container and the volume of an attempt are named after: the attempt, or the spare that it was given."""
    try:
        found = _MARK.fullmatch((directory / files.CONTAINER).read_text(errors="replace"))
    except FileNotFoundError:
        found = None
    return (found and found[2]) or directory.name


def configuration(
    settings: DockerSettings, owner: ContainerOwner, attempt: str, *, is_salvage: bool = False, is_spare: bool = False
) -> dict[str, Any]:
    """Return the configuration of the container that runs an attempt."""
    host: dict[str, Any] = {
        "ReadonlyRootfs": True,
        "Tmpfs": _TMPFS,
        "CapDrop": ["ALL"],
        "CapAdd": sorted(user.KEPT_CAPABILITIES),
        "SecurityOpt": ["no-new-privileges:true"],
        "Privileged": False,
        "PidsLimit": settings.pids,
        "ExtraHosts": [entry.replace("=", ":", 1) for entry in settings.extra_hosts],
        "LogConfig": _LOG_CONFIG,
        "RestartPolicy": {"Name": "no"},
        **_storage(settings, owner, attempt),
        "Init": False,
    }
    if not is_salvage:  # it only delivers, and runs nothing of the module
        host["Mounts"] = [*host.get("Mounts", []), *(each.mount for each in settings.bindings)]
    if settings.memory_bytes:
        # Without swap, so that the limit is the limit.
        host |= {"Memory": settings.memory_bytes, "MemorySwap": settings.memory_bytes}
    if settings.cpus:
        host["NanoCpus"] = int(settings.cpus * 1_000_000_000)
    if settings.network:
        host["NetworkMode"] = settings.network
    labels = owner.labels(attempt) | ({f"{LABEL}.salvage": "true"} if is_salvage else {})
    return _program(settings, [arrival.SPARE] if is_spare else [], labels, host)


def asking_for_engines(settings: DockerSettings, owner: ContainerOwner) -> dict[str, Any]:
    """Return the configuration of a container that prints the engines of the image."""
    host = {"ReadonlyRootfs": True, "CapDrop": ["ALL"], "NetworkMode": "none", "LogConfig": _LOG_CONFIG}
    return _program(settings, ["engines"], owner.labels(""), {**host, "Tmpfs": _TMPFS})


def removing(settings: DockerSettings, owner: ContainerOwner, attempt: str) -> dict[str, Any]:
    """Return the configuration of a container that removes the directory of an attempt from the daemon's host."""
    mount = {"Type": "bind", "Source": settings.bind_path, "Target": str(paths.ROOT)}
    host = {"ReadonlyRootfs": True, "NetworkMode": "none", "Mounts": [mount], "LogConfig": _LOG_CONFIG}
    return _program(settings, ["remove", owner.name(attempt)], owner.labels(""), host)


def _program(
    settings: DockerSettings, arguments: list[str], labels: dict[str, str], host: dict[str, Any]
) -> dict[str, Any]:
    return {
        "Image": settings.image,
        "Entrypoint": COMMAND,
        "Cmd": arguments,
        "User": "0:0",
        "WorkingDir": "/",
        "Labels": labels,
        "HostConfig": host,
    }


def _storage(settings: DockerSettings, owner: ContainerOwner, attempt: str) -> dict[str, Any]:
    """Return where the attempt's files are. A bind in this form makes the directory if it is missing; a mount does not."""
    name, target = owner.name(attempt), str(paths.ROOT)
    if settings.bind_path:
        return {"Binds": [f"{settings.bind_path}/{name}:{target}"]}
    options = {"NoCopy": True, "Labels": owner.labels(attempt)}
    return {"Mounts": [{"Type": "volume", "Source": name, "Target": target, "VolumeOptions": options}]}
