"""Makes sure that the daemon has an image of executors, and says in words why it does not."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

import aiodocker
import msgspec

from terracrew.runner.dispatch.docker import daemon as docker_daemon
from terracrew.runner.dispatch.docker.daemon import Daemon
from terracrew.runner.dispatch.docker.settings import DockerSettings
from terracrew.runner.dispatch.protocol import NotStarted

log = logging.getLogger(__name__)

_STALL_SECONDS = 120.0
"""How long a registry may send nothing."""
_PROGRESS_SECONDS = 10.0
"""How often the progress of a pull is noted."""
_MAX_REASON_CHARACTERS = 500


class _Layer(msgspec.Struct):
    done: int = 0
    total: int = 0


class Images:
    """An image is pulled when it is used first, and when it is missing. Attempts that need it at the same time share a pull."""

    def __init__(self, daemon: Daemon, settings: DockerSettings) -> None:
        self._daemon, self._settings = daemon, settings
        self._fresh = set[str]()
        """The images that were pulled since the runner was started."""
        self._pulling = dict[str, asyncio.Lock]()
        self.progress = dict[str, str]()
        """How far the images are that are being pulled, by name."""
        self.ids = dict[str, str]()
        """The id that each image had when it was ensured last."""

    async def ensure(self, name: str) -> list[str]:
        """Return lines for the job's log. Raises NotStarted if there is no image of this name."""
        async with self._pulling.setdefault(name, asyncio.Lock()):
            found = await self._find(name)
            if found and (self._settings.is_local_image or name in self._fresh):
                return []
            if self._settings.is_local_image:
                raise NotStarted(
                    f"the Docker daemon at {self._daemon.host} has no image {name}, and LOCAL_IMAGE says that it is never pulled"
                )
            lines: list[str] = []

            def say(line: str) -> None:
                self.progress[name] = line
                lines.append(line)

            try:
                await self._pull(name, say)
            except NotStarted as error:
                if not found:
                    raise
                log.warning("%s; the image that the daemon has is used", error.message)
                return [f"{error.message}. The image that the daemon has is used"]
            finally:
                self.progress.pop(name, None)
            self._fresh.add(name)
            return lines

    async def _find(self, name: str) -> dict[str, Any] | None:
        found = await self._daemon.find(lambda: self._daemon.client.images.inspect(name))
        self.ids[name] = found["Id"] if found else ""
        return found

    async def _pull(self, name: str, say: Callable[[str], None]) -> None:
        limit, began = self._settings.pull_seconds, time.monotonic()
        auth: dict[str, str] | None = None
        if self._settings.registry_username:
            auth = {"username": self._settings.registry_username, "password": self._settings.registry_password}
        log.info("pulling the image %s", name)
        say(f"Pulling the image {name}")
        try:
            async with asyncio.timeout(limit):
                await self._follow(self._daemon.client.images.pull(name, auth=auth, stream=True, timeout=limit), say)
        except TimeoutError:
            raise NotStarted(f"the image {name} was not pulled: its registry is too slow, or does not answer") from None
        except aiodocker.DockerError as error:
            raise NotStarted(f"the image {name} cannot be pulled: {_reason(error)}") from None
        except Exception as error:
            if not docker_daemon.is_silence(error):
                raise
            raise NotStarted(f"the image {name} cannot be pulled: the Docker daemon does not answer: {error}") from None
        if await self._find(name) is None:
            raise NotStarted(f"the image {name} was pulled, but the Docker daemon does not have it")
        say(f"Pulled the image in {time.monotonic() - began:.0f} s")

    async def _follow(self, progress: Any, say: Callable[[str], None]) -> None:
        layers: dict[str, _Layer] = {}
        said_at = time.monotonic()
        iterator = aiter(progress)
        while True:
            try:
                async with asyncio.timeout(_STALL_SECONDS):
                    event: dict[str, Any] = await anext(iterator)
            except StopAsyncIteration:
                return
            detail: dict[str, Any] = event.get("progressDetail") or {}
            if event.get("status") == "Downloading" and detail:
                layers[str(event.get("id"))] = _Layer(int(detail.get("current", 0)), int(detail.get("total", 0)))
            if layers and time.monotonic() - said_at > _PROGRESS_SECONDS:
                said_at = time.monotonic()
                done, total = (sum(getattr(each, field) for each in layers.values()) for field in ("done", "total"))
                say(f"Pulling the image: {done >> 20} of {total >> 20} MiB in {len(layers)} layers")


def _reason(error: aiodocker.DockerError) -> str:
    return " ".join(str(error.message).split())[:_MAX_REASON_CHARACTERS]
