"""The engine's `http` backend: it serves one state on loopback to a client that knows this attempt's secret."""

import asyncio
import base64
import hashlib
import hmac
import socket
from collections.abc import Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import h11
import msgspec

from terracrew.attempt import encryption
from terracrew.errors import Conflict, Invalid, Locked, NotFound, TerracrewError, TooLarge, Unauthenticated
from terracrew.executor.state.states import States

PATH = "/state"
MAX_BODY = 256 << 20
_READ_BYTES = 1 << 16
_METHODS = ("GET", "POST", "DELETE", "LOCK", "UNLOCK")


class _LockInfo(msgspec.Struct):
    """The lock as engines send it, with field names in Go's spelling."""

    id: str = msgspec.field(name="ID", default="")


class _MethodNotAllowed(Invalid):
    status, code = 405, "method_not_allowed"


class _AlreadyLocked(Locked):
    status, code = 423, "already_locked"

    def __init__(self, info: bytes) -> None:
        super().__init__("the state is locked by another run of this attempt")
        self.info = info


Delivery = Callable[[int], Awaitable[bool]]
"""Waits until the server has the events up to a number. Returns False if the server refuses them."""


class StateBackend:
    def __init__(self, states: States, secret: str, deliver: Delivery | None = None) -> None:
        """Bind and listen at once, so that an engine may be started before anything serves.

        With `deliver`, the engine gets its answer when the server has its state, because the executor's disk may be lost.
        """
        self._states, self._deliver = states, deliver
        self._authorization = f"Basic {encryption.backend_authorization(secret)}".encode()
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=16)
        self._lock: tuple[str, bytes] | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}{PATH}"

    def release(self) -> None:
        """Release the lock, because the engine that held it has ended."""
        self._lock = None

    async def serve(self) -> None:
        """Serve until cancelled."""
        server = await asyncio.start_server(self._accept, sock=self._socket, limit=_READ_BYTES)
        try:
            await asyncio.Event().wait()
        finally:
            server.close()
            for task in self._connections:
                task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            await self._converse(reader, writer)
        except (OSError, h11.RemoteProtocolError, asyncio.CancelledError):
            pass  # the engine has disconnected, or sent something other than HTTP; no request was half processed
        finally:
            self._connections.discard(task)
            writer.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h11.Connection(h11.SERVER)
        while True:
            request = await _next(connection, reader, writer)
            if not isinstance(request, h11.Request):
                return
            status, body, is_read = await self._respond(request, connection, reader, writer)
            headers = [("Content-Length", str(len(body))), ("Content-Type", "application/json")]
            if status == 401:
                headers.append(("WWW-Authenticate", 'Basic realm="state"'))
            if not is_read:
                headers.append(("Connection", "close"))
            response = h11.Response(status_code=status, headers=headers)
            parts = (connection.send(response), connection.send(h11.Data(body)), connection.send(h11.EndOfMessage()))
            writer.write(b"".join(part for part in parts if part))
            await writer.drain()
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _respond(
        self,
        request: "h11.Request",
        connection: "h11.Connection",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> tuple[int, bytes, bool]:
        """Return the status, the body, and whether the request's own body has been read."""
        is_read = False
        try:
            method, query = self._check(request)
            body = bytearray()
            while isinstance(event := await _next(connection, reader, writer), h11.Data):
                body += event.data
                if len(body) > MAX_BODY:
                    raise TooLarge(f"a state may have up to {MAX_BODY >> 20} MiB")
            is_read = True
            return (*await self._act(method, query, request, bytes(body)), True)
        except _AlreadyLocked as error:
            return error.status, error.info, is_read
        except TerracrewError as error:
            return error.status, msgspec.json.encode({"code": error.code, "message": error.message}), is_read

    def _check(self, request: "h11.Request") -> tuple[str, dict[str, list[str]]]:
        """Check the secret and the path of a request before its body is read."""
        headers = dict(request.headers)
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._authorization):
            raise Unauthenticated("the state backend of an attempt needs its secret")
        method, target = request.method.decode(), urlsplit(request.target.decode())
        if target.path != PATH:
            raise NotFound("this backend has only the state of its own attempt")
        if method not in _METHODS:
            raise _MethodNotAllowed(f"the state backend accepts only {', '.join(_METHODS)}")
        if int(headers.get(b"content-length", b"0")) > MAX_BODY:
            raise TooLarge(f"a state may have up to {MAX_BODY >> 20} MiB")
        return method, parse_qs(target.query)

    async def _act(
        self, method: str, query: dict[str, list[str]], request: "h11.Request", body: bytes
    ) -> tuple[int, bytes]:
        match method:
            case "GET":
                return (200, self._states.current) if self._states.current else (204, b"")
            case "LOCK":
                return self._take(body)
            case "UNLOCK":
                return self._give_back(body)
            case "DELETE":
                if (number := await self._states.delete()) is not None:
                    await self._confirm(number)
                return 200, b""
            case _:
                self._must_hold(query.get("ID", [""])[0])
                _check_md5(dict(request.headers).get(b"content-md5"), body)
                await self._confirm(await self._states.write(body))
                return 200, b""

    async def _confirm(self, number: int) -> None:
        if self._deliver and not await self._deliver(number):
            raise Conflict("the server does not accept this state any more")

    def _take(self, body: bytes) -> tuple[int, bytes]:
        wanted = _lock_id(body)
        if self._lock and self._lock[0] != wanted:
            raise _AlreadyLocked(self._lock[1])
        self._lock = wanted, body
        return 200, b""

    def _give_back(self, body: bytes) -> tuple[int, bytes]:
        self._must_hold(_lock_id(body))
        self._lock = None
        return 200, b""

    def _must_hold(self, lock_id: str) -> None:
        if self._lock and lock_id and self._lock[0] != lock_id:
            raise Conflict(f"the lock {lock_id} is not the one that holds this state")


async def _next(
    connection: "h11.Connection", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> "h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]":
    while (event := connection.next_event()) is h11.NEED_DATA:
        if connection.they_are_waiting_for_100_continue:
            waiting = connection.send(h11.InformationalResponse(status_code=100, headers=[]))
            writer.write(waiting or b"")
        connection.receive_data(await reader.read(_READ_BYTES))
    return event


def _lock_id(body: bytes) -> str:
    try:
        return msgspec.json.decode(body, type=_LockInfo).id
    except ValueError as error:
        raise Invalid(f"this is not a lock: {error}") from error


def _check_md5(header: bytes | None, body: bytes) -> None:
    if header and base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()) != header.strip():
        raise Invalid("the state that arrived is not the one that was sent: Content-MD5 differs")
