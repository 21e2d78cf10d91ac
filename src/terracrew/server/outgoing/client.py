"""Sends single requests to addresses that people configured. Such an address cannot make this server ask its own network.

The name is resolved once, every address that it has must be public, and the connection goes to one of these addresses: an answer of the
DNS that changes afterwards changes nothing. There are no redirects, no proxy, no cookies; time and size are bounded. A connection is
used for another request of the same organization to the same host only where the request asks for it.
"""

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

import h11

from terracrew import __version__
from terracrew.client.public_addresses import is_public
from terracrew.server.outgoing.answers import NotSent, OutgoingAnswer, connection_problem
from terracrew.server.outgoing.connections import (
    READ_BYTES,
    ConnectionKey,
    KeptConnections,
    OutgoingConnection,
    opened,
)
from terracrew.server.outgoing.destinations import Destinations
from terracrew.server.outgoing.lookups import Lookups

MAX_SECONDS = 10.0
"""For one request, from the lookup of its name to the last byte of its answer."""
MAX_BODY_BYTES = 1 << 20
_MAX_HEADER_BYTES = 16 << 10
_MAX_ADDRESSES = 4


@dataclass(frozen=True)
class OutgoingRequest:
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    seconds: float = MAX_SECONDS
    max_bytes: int = MAX_BODY_BYTES
    """How much of the body of the answer is read."""
    keeps_connection: bool = False
    """Whether a connection of an earlier request is used, and kept for the next one. Such a request may be sent twice: a connection
    that the host has just closed is replaced."""


class OutgoingClient:
    def __init__(self, destinations: Destinations = Destinations()) -> None:  # noqa: B008 (it is immutable)
        """`destinations` may have private addresses and may be asked without TLS."""
        self._destinations = destinations
        self._lookups = Lookups()
        self._kept = KeptConnections()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def send(
        self, organization_id: str, request: OutgoingRequest, *, is_private_allowed: bool | None = None
    ) -> OutgoingAnswer:
        """Send one request for an organization. Raises NotSent if nobody answered, or if the address may not be asked.

        `is_private_allowed` takes the place of what the destinations say of the host.
        """
        parts, port = _parsed(request.url)
        host = parts.hostname or ""
        is_private = self._destinations.allows_host(host) if is_private_allowed is None else is_private_allowed
        key = ConnectionKey(organization_id, parts.scheme, host, port, is_private)
        exchange = _Exchange(parts, request)
        try:
            async with asyncio.timeout(request.seconds):
                while request.keeps_connection and (kept := self._kept.take(key)) is not None:
                    if await self._is_answered(exchange, kept, key):
                        return exchange.answer()
                    exchange = _Exchange(parts, request)
                addresses = await self._addresses(organization_id, parts, is_private_allowed=is_private)
                exchange.is_private = not all(is_public(each) for each in addresses)
                tls = self._tls if parts.scheme == "https" else None
                await self._run(exchange, await opened(addresses, host, port, tls, request.seconds), key)
        except TimeoutError:
            exchange.end(f"{host} did not answer within {request.seconds:g} seconds")
        except (OSError, h11.ProtocolError, UnicodeError) as error:
            exchange.end(connection_problem(error, host))
        return exchange.answer()

    def close(self) -> None:
        """Close the connections that are kept."""
        self._kept.close()

    async def _run(self, exchange: "_Exchange", connection: OutgoingConnection, key: ConnectionKey) -> None:
        """Send a request and read its answer. Afterwards the connection is kept, if both sides want that, or closed."""
        try:
            await exchange.run(connection.reader, connection.writer)
        except BaseException:
            connection.abort()
            raise
        if exchange.is_reusable:
            self._kept.keep(key, connection)
        else:
            connection.abort()

    async def _is_answered(self, exchange: "_Exchange", kept: OutgoingConnection, key: ConnectionKey) -> bool:
        """Return whether a kept connection still gave an answer. If it breaks in the middle of one, the error is raised."""
        try:
            await self._run(exchange, kept, key)
        except (OSError, h11.ProtocolError, NotSent):
            if exchange.has_begun:
                raise
            return False
        return True

    async def checked_addresses(self, organization_id: str, url: str) -> tuple[str, int, list[str]]:
        """Return host, port and addresses for a program that connects by itself, to these addresses only. Raises NotSent.

        A name that nobody resolves delays the caller by `MAX_SECONDS` at most.
        """
        parts, port = _parsed(url)
        host = parts.hostname or ""
        is_private = self._destinations.allows_host(host)
        try:
            async with asyncio.timeout(MAX_SECONDS):
                addresses = await self._addresses(organization_id, parts, is_private_allowed=is_private)
        except TimeoutError:
            raise NotSent(f"the name {host} could not be looked up within {MAX_SECONDS:g} seconds") from None
        except (OSError, UnicodeError) as error:
            raise NotSent(f"the name {host} cannot be looked up: {type(error).__name__}") from None
        return host, port, addresses

    async def _addresses(self, organization_id: str, parts: SplitResult, *, is_private_allowed: bool) -> list[str]:
        """Return the addresses of a host, if this server may connect to each of them."""
        host = parts.hostname or ""
        addresses = await self._lookups.addresses(organization_id, host)
        if not is_private_allowed:
            if not all(self._destinations.allows(each) for each in addresses):
                raise NotSent(
                    f"{host} has an address that is not public, and the server's settings do not allow that",
                    is_refused=True,
                )
            if parts.scheme == "http" and not all(self._destinations.allows_private(each) for each in addresses):
                raise NotSent(f"the address of {host} is not an https address", is_refused=True)
        return addresses[:_MAX_ADDRESSES]


def _parsed(url: str) -> tuple[SplitResult, int]:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise NotSent("this is not an address", is_refused=True) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise NotSent("this is not an https address", is_refused=True)
    return parts, port


class _Exchange:
    """One request and what has arrived of its answer."""

    def __init__(self, parts: SplitResult, request: OutgoingRequest) -> None:
        self._parts, self._request = parts, request
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEADER_BYTES)
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._incomplete = ""
        self.is_private = False

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection, host = self._connection, self._parts.hostname
        target = f"{self._parts.path or '/'}{'?' if self._parts.query else ''}{self._parts.query}"
        writer.write(
            connection.send(h11.Request(method=self._request.method, target=target, headers=self._sent_headers()))
        )
        if self._request.body:
            writer.write(connection.send(h11.Data(data=self._request.body)))
        writer.write(connection.send(h11.EndOfMessage()))
        await writer.drain()
        while True:
            match connection.next_event():
                case h11.NEED_DATA:
                    connection.receive_data(await reader.read(READ_BYTES))
                case h11.Response(status_code=status, headers=headers):
                    self._status = status
                    self._read_headers([(bytes(name), bytes(value)) for name, value in headers])
                case h11.Data(data=data):
                    self._body += data
                    if len(self._body) > self._request.max_bytes:
                        return self.end(f"{host} answered with more than {self._request.max_bytes} bytes")
                case h11.EndOfMessage():
                    return None
                case h11.ConnectionClosed() | h11.PAUSED:
                    return self.end(f"{host} ended the connection")
                case _:
                    pass

    @property
    def has_begun(self) -> bool:
        """Whether a part of an answer has arrived."""
        return bool(self._status)

    @property
    def is_reusable(self) -> bool:
        """Whether the connection may have another request: the answer is whole, nothing follows it, and neither side wants to close."""
        connection = self._connection
        is_done = connection.our_state is h11.DONE and connection.their_state is h11.DONE
        return self._request.keeps_connection and is_done and connection.trailing_data == (b"", False)

    def end(self, reason: str) -> None:
        """Note why there is not more. What has arrived remains an answer, if it has a status."""
        if not self._status:
            raise NotSent(reason)
        self._incomplete = reason

    def answer(self) -> OutgoingAnswer:
        return OutgoingAnswer(
            self._status,
            self._headers,
            bytes(self._body[: self._request.max_bytes]),
            self._incomplete,
            self.is_private,
        )

    def _sent_headers(self) -> list[tuple[str, str]]:
        given = {name.lower() for name in self._request.headers}
        own = {
            "Host": self._parts.netloc,
            "Accept": "*/*",
            "Accept-Encoding": "identity",
            "User-Agent": "terracrew/" + __version__,
            "Connection": "keep-alive" if self._request.keeps_connection else "close",
        }
        if self._request.body or self._request.method in ("POST", "PUT", "PATCH"):
            own["Content-Length"] = str(len(self._request.body))
        return [
            *((name, value) for name, value in own.items() if name.lower() not in given),
            *self._request.headers.items(),
        ]

    def _read_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        for raw_name, raw_value in headers:
            name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
            self._headers[name] = f"{self._headers[name]}, {value}" if name in self._headers else value
