"""The connection to a Docker daemon, and which of its answers count.

A daemon that is restarted, or a proxy in front of it, says nothing about containers: only an answer of the daemon itself does.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiodocker
import aiohttp

from terracrew.backoff import Backoff
from terracrew.errors import Invalid

log = logging.getLogger(__name__)

T = TypeVar("T")
Container = Any
"""A container of aiodocker, whose methods have no complete types."""

USUAL_HOST = "unix:///var/run/docker.sock"
_UNIX = "unix://"
_REQUEST_SECONDS = 60.0
_PROXY_STATUSES = (401, 407, 408, 429, 502, 503, 504)
_MAX_HTTP_STATUS = 504
"""aiodocker reports a daemon that cannot be reached with a status above those of HTTP."""


class Daemon:
    def __init__(self, host: str, environment: Mapping[str, str]) -> None:
        """`environment` is the runner's: a daemon that wants TLS is described by DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."""
        self.host = host or environment.get("DOCKER_HOST") or USUAL_HOST
        self.is_local = self.host.startswith(_UNIX)
        # Each container that is watched holds a connection, so their number has no limit.
        if self.is_local:
            self._connector: aiohttp.BaseConnector = aiohttp.UnixConnector(self.host.removeprefix(_UNIX), limit=0)
            url = "unix://localhost"
        else:
            context = _tls(environment)
            self._connector = aiohttp.TCPConnector(ssl=context or True, limit=0)
            scheme = "https" if context or self.host.startswith("https://") else "http"
            url = f"{scheme}://{self.host.partition('://')[2]}"
        timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
        self.client: Any = aiodocker.Docker(url, connector=self._connector, timeout=timeout)

    async def close(self) -> None:
        await self.client.close()
        await self._connector.close()

    async def ask(self, question: Callable[[], Awaitable[T]]) -> T:
        """Return the daemon's answer, and ask again until there is one. Raises DockerError for a refusal of the daemon."""
        delays, is_reported = Backoff(0.2, 30.0), False
        while True:
            try:
                return await question()
            except Exception as error:
                if not is_silence(error):
                    raise
                if not is_reported:
                    log.warning("the Docker daemon at %s does not answer, and is asked again: %s", self.host, error)
                    is_reported = True
            await asyncio.sleep(delays.next())

    async def find(self, question: Callable[[], Awaitable[T]]) -> T | None:
        """Ask for something that may not exist; None if the daemon says that it does not."""
        try:
            return await self.ask(question)
        except aiodocker.DockerError as error:
            if is_missing(error):
                return None
            raise


def is_silence(error: Exception) -> bool:
    """Return whether an error says nothing, because it is not an answer of the daemon."""
    if isinstance(error, aiodocker.DockerError):
        return error.status in _PROXY_STATUSES or error.status > _MAX_HTTP_STATUS
    # Something else than a daemon may answer with text that is not JSON.
    return isinstance(error, (aiohttp.ClientError, TimeoutError, OSError, ValueError))


def is_missing(error: aiodocker.DockerError) -> bool:
    """Return whether the daemon says that something does not exist. A proxy that answers 404 does not use these words."""
    return error.status == 404 and "no such" in str(error.message).lower()


def _tls(environment: Mapping[str, str]) -> ssl.SSLContext | None:
    folder = environment.get("DOCKER_CERT_PATH", "")
    if environment.get("DOCKER_TLS_VERIFY", "") in ("", "0") and not folder:
        return None
    path = Path(folder or os.path.expanduser("~/.docker"))
    try:
        context = ssl.create_default_context(cafile=str(path / "ca.pem"))
        context.load_cert_chain(path / "cert.pem", path / "key.pem")
    except OSError as error:
        raise Invalid(f"DOCKER_CERT_PATH: the certificates in {path} cannot be used: {error}") from error
    return context
