"""The connection to an API server of Kubernetes, and which of its answers count.

An API server that is restarted, a load balancer in front of it, and a credential that has expired say nothing about pods: only
an answer of the API server itself does. It is one of its own objects, or a `Status`.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar

import aiohttp
import msgspec

from terracrew.backoff import Backoff
from terracrew.kubernetes_api.access import AccessError, ClusterAccess
from terracrew.kubernetes_api.objects import ApiStatus

log = logging.getLogger(__name__)

T = TypeVar("T")
_REQUEST_SECONDS = 30.0
WATCH_SECONDS = 60
"""How long one request follows changes, because a connection can die in silence."""
_SILENT_STATUSES = frozenset({401, 407, 408, 429})
MAX_ANSWER_BYTES = 64 << 20
_FORBIDDEN_CODE = 403


class ApiRefusal(Exception):
    """The API server itself refused a request."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message

    @property
    def is_missing(self) -> bool:
        return self.status == 404 and self.reason == "NotFound"

    @property
    def exists_already(self) -> bool:
        return self.status == 409 and self.reason == "AlreadyExists"


class ApiSilenceError(Exception):
    """There was no answer of the API server that says anything about its objects."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """The status of the API server's own answer; 0 if something else answered, or nobody."""


SILENCE = (ApiSilenceError, AccessError, aiohttp.ClientError, TimeoutError, OSError, ValueError)
"""What a request raises that did not get an answer of the API server."""


class KubernetesApi:
    def __init__(self, access: ClusterAccess, namespace: str) -> None:
        self._access, self.namespace = access, namespace
        self._session: aiohttp.ClientSession | None = None

    @property
    def server(self) -> str:
        return self._access.server

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def ask(
        self,
        kind: type[T],
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        when_silent: Callable[[], None] = lambda: None,
    ) -> T:
        """Return the API server's answer, and ask again until there is one. Raises ApiRefusal for a refusal of the API server.

        `when_silent` is called when a request may or may not have arrived.
        """
        delays, is_reported = Backoff(0.2, 30.0), False
        while True:
            try:
                return msgspec.json.decode(await self.request(method, path, body, query or {}), type=kind)
            except SILENCE as error:
                when_silent()
                if not is_reported:
                    log.warning(
                        "Kubernetes at %s does not answer, and is asked again: %s", self.server, error or repr(error)
                    )
                    is_reported = True
            await asyncio.sleep(delays.next())

    async def find(self, kind: type[T], path: str, query: Mapping[str, str] | None = None) -> T | None:
        """Ask for something that may not exist; None if the API server says that it does not."""
        return await self._unless_missing(kind, "GET", path, query=query)

    async def delete(self, path: str, body: Mapping[str, Any]) -> bool:
        """Delete something. Returns False if the API server says that it does not exist, or that it is another one by now."""
        try:
            return await self._unless_missing(dict[str, Any], "DELETE", path, body=body) is not None
        except ApiRefusal as refusal:
            if refusal.status == 409:  # the precondition: something else has this name
                return False
            raise

    async def _unless_missing(
        self, kind: type[T], method: str, path: str, *, body: Any = None, query: Mapping[str, str] | None = None
    ) -> T | None:
        try:
            return await self.ask(kind, method, path, body=body, query=query)
        except ApiRefusal as refusal:
            if refusal.is_missing:
                return None
            raise

    async def watch(self, path: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Yield one change after the other, each a JSON object, until the API server or the network ends the request."""
        session, headers, url = await self._prepare(path)
        params = {**query, "watch": "1", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECONDS)}
        timeout = aiohttp.ClientTimeout(total=WATCH_SECONDS + _REQUEST_SECONDS, connect=_REQUEST_SECONDS)
        name = self._access.certificate_name
        async with session.get(url, params=params, headers=headers, timeout=timeout, server_hostname=name) as response:
            if response.status != 200:
                self._refuse("GET", response.status, await _read(response))
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def request(self, method: str, path: str, body: Any, query: Mapping[str, str]) -> bytes:
        """Ask once. `path` is below the namespace, or begins with a slash. Raises ApiRefusal, or one of SILENCE."""
        session, headers, url = await self._prepare(path)
        content = None
        if body is not None:
            content = msgspec.json.encode(body)
            headers["Content-Type"] = "application/merge-patch+json" if method == "PATCH" else "application/json"
        timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS)
        async with session.request(
            method,
            url,
            params=query,
            data=content,
            headers=headers,
            timeout=timeout,
            allow_redirects=False,
            server_hostname=self._access.certificate_name,
        ) as response:
            answer = await _read(response)
            if not 200 <= response.status < 300:
                self._refuse(method, response.status, answer)
            return answer

    async def _prepare(self, path: str) -> tuple[aiohttp.ClientSession, dict[str, str], str]:
        if not path.startswith("/"):
            group = "apis/batch/v1" if path.startswith("jobs") else "api/v1"
            path = f"/{group}/namespaces/{self.namespace}/{path}"
        headers = {"Accept": "application/json", **await self._access.headers()}  # first: it may find the address
        if self._session is None:
            # Requests are many only for a moment, so their number has no limit.
            connector = aiohttp.TCPConnector(ssl=self._access.tls(), limit=0)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=True)  # with the proxy of the machine
        return self._session, headers, self.server + path

    def _refuse(self, method: str, status: int, answer: bytes) -> None:
        """Raise what an answer without the wanted object means."""
        if status == 401:
            self._access.forget()
        try:
            said = msgspec.json.decode(answer, type=ApiStatus)
        except ValueError:
            raise ApiSilenceError(f"it answered with status {status} and no object of Kubernetes") from None
        message = said.message or f"status {status}"
        # A credential that was taken away says nothing about what exists. What may not be made was not made.
        is_unreadable = status == _FORBIDDEN_CODE and method != "POST"
        if said.kind != "Status" or status >= 500 or status in _SILENT_STATUSES or is_unreadable:
            raise ApiSilenceError(message, status)
        raise ApiRefusal(status, said.reason or "", message)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """Return an answer. What an address answers that people have given is not read without a limit."""
    chunks, size = list[bytes](), 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_ANSWER_BYTES:
            raise ApiSilenceError(f"its answer has more than {MAX_ANSWER_BYTES >> 20} MiB")
    return b"".join(chunks)
