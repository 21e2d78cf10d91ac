"""A container that is started before its job is known, so that the job does not wait for the container and its program to load.

A spare container is made after an attempt was started, and again after it has ended, with the settings of that attempt, because
the next job often asks for the same. It has no job and no secret. It waits for a job as every container does
(`executor/container/arrival.py`), so it ends by itself if its runner dies, and its runner removes it if no job takes it in time.

Its container and its volume are named after the spare and not after the attempt that takes it, since Docker cannot rename a
volume. The file `container` of the attempt's directory has that name.
"""

import asyncio
import contextlib
import logging
import secrets
import time
from pathlib import Path

import aiodocker
import msgspec

from terracrew.executor.container import arrival
from terracrew.runner.dispatch.containers.attempts import BackgroundTasks
from terracrew.runner.dispatch.docker import containers
from terracrew.runner.dispatch.docker.daemon import Container, Daemon
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.runner.dispatch.docker.volumes import Volumes

log = logging.getLogger(__name__)

USABLE_SECONDS = arrival.SPARE_SECONDS - arrival.WAIT_SECONDS
"""How long a spare may wait until a job takes it. The upload of the job has as long afterwards as in any other container."""
PAUSE_SECONDS = 1.0
"""How long the attempt that has just started, or the one that follows, has the machine for itself."""
_CLOSE_SECONDS = 5.0
"""How long a daemon that does not answer holds up the end of the runner. The spare ends by itself then."""


class _Spare(msgspec.Struct, frozen=True):
    name: str
    settings: DockerSettings
    container: str
    image: str
    """The id of the image: its name may mean another image by now."""
    until: float


class Spares:
    def __init__(self, daemon: Daemon, place: Volumes, tasks: BackgroundTasks) -> None:
        self._daemon, self._place, self._tasks = daemon, place, tasks
        self._ready: _Spare | None = None
        self._names = set[str]()
        """Those of `Volumes.spares` that are of this dispatcher."""
        self._making: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    @property
    def is_ready(self) -> bool:
        return self._ready is not None

    def prepare(self, chosen: DockerSettings) -> None:
        """Have a container ready for a job with these settings. One with other settings is removed."""
        is_there = self._ready is not None and self._ready.settings == chosen
        is_being_made = self._making is not None and not self._making.done()
        if chosen.has_spare and not chosen.bind_path and not is_being_made and not is_there:
            self._making = self._tasks.start(self._make_later(chosen))

    async def take(self, chosen: DockerSettings, image: str, directory: Path) -> Container | None:
        """Give the spare to an attempt if it is exactly what the attempt asks for. It is running, and waits for its job."""
        spare = self._ready
        if spare is None or spare.settings != chosen or time.monotonic() >= spare.until:
            return None
        self._ready = None
        container = self._daemon.client.containers.container(spare.container)
        try:
            shown = await self._daemon.find(container.show)
            is_late = time.monotonic() >= spare.until
            if shown is None or not shown["State"]["Running"] or image != spare.image or is_late:
                return None
            # A sweep keeps it from here on because of this file. Nothing else can run between these two lines.
            containers.write_mark(directory, spare.container, spare.name)
            self._release(spare.name)
            return container
        except aiodocker.DockerError as error:
            log.info("the container that was ready is not used: %s", error.message)
            return None
        finally:
            if spare.name in self._names:
                self._tasks.start(self._remove(spare.name))

    async def close(self) -> None:
        """Remove what no attempt has taken."""
        self._closing.set()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                if self._making is not None:
                    await asyncio.wait({self._making})  # a request that is given up may still be carried out
                for name in list(self._names):
                    await self._remove(name)
        except TimeoutError:
            log.warning("a container that was ready for the next job ends by itself: the daemon does not answer")

    async def _make_later(self, chosen: DockerSettings) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PAUSE_SECONDS):
                await self._closing.wait()
                return
        name = f"{containers.SPARE_PREFIX}{secrets.token_hex(8)}"
        self._names.add(name)
        self._place.spares.add(name)
        spare = await self._make(name, chosen)
        if spare is None:
            await self._remove(name)
            return
        replaced, self._ready = self._ready, spare
        self._tasks.start(self._expire(spare))
        if replaced is not None:
            await self._remove(replaced.name)

    async def _make(self, name: str, chosen: DockerSettings) -> _Spare | None:
        client, owner = self._daemon.client, self._place.owner
        configuration = containers.configuration(chosen, owner, name, is_spare=True)
        try:
            made: Container = await self._daemon.ask(
                lambda: client.containers.create(configuration, name=owner.name(name))
            )
            until = time.monotonic() + USABLE_SECONDS
            await self._daemon.ask(made.start)
            shown = await self._daemon.ask(made.show)
        except aiodocker.DockerError as error:
            log.info("no container is ready for the next job: %s", error.message)
            return None
        return _Spare(name, chosen, made.id, shown["Image"], until)

    async def _expire(self, spare: _Spare) -> None:
        await asyncio.sleep(spare.until - time.monotonic())
        if self._ready is spare:
            self._ready = None
            await self._remove(spare.name)

    async def _remove(self, name: str) -> None:
        try:
            await self._place.remove_named(name)
        except aiodocker.DockerError as error:
            log.info("a container that was ready for the next job is removed later: %s", error.message)
        self._release(name)

    def _release(self, name: str) -> None:
        """Leave it to its attempt, or to a sweep."""
        self._names.discard(name)
        self._place.spares.discard(name)
