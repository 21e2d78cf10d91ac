"""Where the directories of attempts are that run in containers: on a volume each, or in a directory of the daemon's host."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import aiodocker
import msgspec
from aiodocker.volumes import DockerVolume

from terracrew.attempt import exit_codes
from terracrew.runner.dispatch.containers import attempts
from terracrew.runner.dispatch.docker import attempt_files, containers
from terracrew.runner.dispatch.docker.containers import LABEL, SPARE_PREFIX, ContainerOwner
from terracrew.runner.dispatch.docker.daemon import Container, Daemon
from terracrew.runner.dispatch.docker.settings import DockerSettings

log = logging.getLogger(__name__)

_NOTHING_NEEDED = (exit_codes.DELIVERED, exit_codes.NOT_BEGUN)
_KEY, _ATTEMPT = f"{LABEL}.key", f"{LABEL}.attempt"
_MAX_HELPER_SECONDS = 3600.0
"""Longer than a container that helps for a moment can be needed, whatever the clock of the daemon's host says."""


class Volumes:
    spares: ClassVar[set[str]] = set()
    """The names of the containers of this process that no attempt has taken yet (`spares.py`). A sweep leaves them alone, also one
    of another dispatcher of the runner, which has the same key: an attempt could take one while the sweep goes on."""

    def __init__(self, settings: DockerSettings, daemon: Daemon, owner: ContainerOwner) -> None:
        self._settings, self.daemon, self.owner = settings, daemon, owner

    async def reader(self, directory: Path) -> Container | None:
        """Return a container that is never started, and through which the volume can be read; None if there is no volume."""
        client, place = self.daemon.client, containers.name_of(directory)
        name = self.owner.name(place)
        if not self._settings.bind_path and await self.daemon.find(DockerVolume(client, name).show) is None:
            return None
        configuration = containers.configuration(self._settings, self.owner, place)
        earlier = client.containers.container(f"{name}-reader")
        await self.daemon.find(lambda: earlier.delete(force=True))
        return await self.daemon.ask(lambda: client.containers.create(configuration, name=f"{name}-reader"))

    async def retrieve(self, directory: Path, /) -> None:
        reader = await self.reader(directory)
        if reader is None:
            return
        try:
            await attempt_files.copy_everything(self.daemon, reader, directory)
        finally:
            await self.daemon.find(lambda: reader.delete(force=True))

    async def remove(self, directory: Path, /) -> None:
        async with attempts.or_later(f"the container of {directory.name}", aiodocker.DockerError):
            await self.remove_named(containers.name_of(directory))

    async def remove_named(self, name: str) -> None:
        """Remove the container and the volume of this name, whatever they are doing."""
        await self._remove(self.owner, name)

    async def sweep(self, kept: Callable[[], Collection[Path]], /) -> None:
        client, label = self.daemon.client, {"label": [f"{LABEL}.attempt"]}
        found = await self.daemon.ask(lambda: client.containers.list(all=True, filters=label))
        await self._remove_helpers(found)
        await remove_abandoned(self.daemon, found, self.owner.key)
        listed = [each["Labels"] for each in found]
        volumes: list[dict[str, Any]] = (await self.daemon.ask(lambda: client.volumes.list(filters=label)))[
            "Volumes"
        ] or []
        listed += [each["Labels"] for each in volumes]
        used = {containers.name_of(directory) for directory in kept()} | self.spares | {""}
        for name in sorted({labels[_ATTEMPT] for labels in listed if self._is_own(labels)} - used):
            log.info("removing what an earlier process left of %s", name)
            await self.remove_named(name)
        for key, name in sorted(
            {(labels[_KEY], labels[_ATTEMPT]) for labels in listed if self._is_predecessor(labels)}
        ):
            await self._remove_if_delivered(msgspec.structs.replace(self.owner, key=key), name)

    async def _remove_helpers(self, listed: Sequence[Container]) -> None:
        """Remove containers that asked an image for its engines, or removed a directory, for a process that was killed."""
        for each in listed:
            is_old = time.time() - each["Created"] > _MAX_HELPER_SECONDS
            if is_old and self._is_own(each["Labels"]) and not each["Labels"][_ATTEMPT]:
                await self.daemon.find(partial(each.delete, force=True))

    async def _remove_if_delivered(self, predecessor: ContainerOwner, attempt: str) -> None:
        """Remove what the same instance started with another working directory, if nothing of it is needed any more."""
        container = self.daemon.client.containers.container(predecessor.name(attempt))
        shown = await self.daemon.find(container.show)
        if shown and shown["State"]["Status"] == "exited" and shown["State"]["ExitCode"] in _NOTHING_NEEDED:
            log.info("removing what is left of %s, which an earlier instance of this name started", attempt)
            await self._remove(predecessor, attempt)

    async def _remove(self, owner: ContainerOwner, attempt: str) -> None:
        """Remove the container last: it is the sign that there is something to remove."""
        client, name = self.daemon.client, owner.name(attempt)
        container, reader = (client.containers.container(each) for each in (name, f"{name}-reader"))
        await self.daemon.find(lambda: reader.delete(force=True))
        if self._settings.bind_path:
            await self._remove_directory(owner, attempt)
        await self.daemon.find(lambda: container.delete(force=True))
        if not self._settings.bind_path:
            await self.daemon.find(lambda: DockerVolume(client, name).delete(force=True))

    async def _remove_directory(self, owner: ContainerOwner, attempt: str) -> None:
        client = self.daemon.client
        configuration = containers.removing(self._settings, owner, attempt)
        cleaner = await self.daemon.ask(lambda: client.containers.create(configuration))
        try:
            await self.daemon.ask(cleaner.start)
            await self.daemon.ask(cleaner.wait)
        finally:
            await self.daemon.find(lambda: cleaner.delete(force=True))

    def _is_own(self, labels: Mapping[str, str]) -> bool:
        return labels.get(_KEY) == self.owner.key

    def _is_predecessor(self, labels: Mapping[str, str]) -> bool:
        names = labels.get(f"{LABEL}.runner"), labels.get(f"{LABEL}.instance")
        is_same_instance = names == (self.owner.runner, self.owner.instance)
        return is_same_instance and not self._is_own(labels) and bool(labels[_ATTEMPT])


MIN_ABANDONED_SECONDS = 24 * 3600.0
_NOT_RUNNING = ("created", "exited", "dead")


async def remove_abandoned(daemon: Daemon, listed: Sequence[Container], own_key: str) -> None:
    """Remove containers that runners which were killed, and never came back under the same name, had ready for a job.

    Such a container ends by itself, or was never started, and nobody else looks for it. A runner that is alive removes its own
    within minutes. So a container is removed only if it is a day old, does not run, and never got a job: an attempt that did may
    have left what only its own runner can deliver. Kubernetes keeps the Job of such a runner for as long.
    """
    for each in listed:
        labels = each["Labels"]
        is_spare = labels[f"{LABEL}.attempt"].startswith(SPARE_PREFIX) and labels.get(f"{LABEL}.key") != own_key
        is_old = time.time() - each["Created"] > MIN_ABANDONED_SECONDS
        if is_spare and is_old and each["State"] in _NOT_RUNNING:
            try:
                await _remove_unless_used(daemon, each)
            except aiodocker.DockerError as error:
                log.info("a container that no job has used is removed later: %s", error.message)


async def _remove_unless_used(daemon: Daemon, container: Container) -> None:
    if await attempt_files.holds_attempt(daemon, container):
        return
    name = container["Names"][0].removeprefix("/")
    log.info("removing %s, which a runner that is gone had ready for a job", name)
    # Without `force`, so that the daemon refuses if it runs after all, or if something else uses its volume.
    await daemon.find(partial(container.delete))
    await daemon.find(DockerVolume(daemon.client, name).delete)
