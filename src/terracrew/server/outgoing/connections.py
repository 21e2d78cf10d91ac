"""Opens connections to addresses that were checked, and keeps them for the next request to the same host.

A handshake of TLS costs more than all the rest of a request, and forges are asked again and again.
"""

import asyncio
import ssl
import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple, SupportsIndex

MAX_IDLE_SECONDS = 30.0
"""Servers close idle connections by themselves, most of them after a minute or more."""
MAX_AGE_SECONDS = 300.0
"""After this time the name of a host is looked up and checked again, so that one that has moved is found."""
MAX_KEPT = 100
READ_BYTES = 16 << 10


class ConnectionKey(NamedTuple):
    """Who may use a connection again: one organization, for the same address, checked by the same rules."""

    organization_id: str
    scheme: str
    host: str
    port: int
    is_private_allowed: bool


class OutgoingConnection:
    def __init__(self, reader: "_WatchedReader", writer: asyncio.StreamWriter) -> None:
        self.reader: asyncio.StreamReader = reader
        self.writer = writer
        self.opened_at = self.idle_at = time.monotonic()
        self._watched = reader

    def rest(self) -> None:
        """Note that nobody uses it now."""
        self.idle_at = time.monotonic()
        self._watched.is_resting = True

    def wake(self) -> bool:
        """Use it again, if it is young enough and the other side has done nothing meanwhile."""
        self._watched.is_resting = False
        now = time.monotonic()
        is_young = now - self.opened_at < MAX_AGE_SECONDS and now - self.idle_at < MAX_IDLE_SECONDS
        return is_young and not self._watched.is_spoiled and not self.writer.transport.is_closing()

    def abort(self) -> None:
        self.writer.transport.abort()


class KeptConnections:
    def __init__(self) -> None:
        self._resting: dict[ConnectionKey, list[OutgoingConnection]] = {}

    def take(self, key: ConnectionKey) -> OutgoingConnection | None:
        """Return a connection that nobody uses, the one that was used last first."""
        waiting = self._resting.get(key, [])
        while waiting:
            found = waiting.pop()
            if not waiting:
                del self._resting[key]
            if found.wake():
                return found
            found.abort()
        return None

    def keep(self, key: ConnectionKey, connection: OutgoingConnection) -> None:
        """Keep a connection whose last answer has arrived as a whole."""
        self._drop_old()
        if sum(map(len, self._resting.values())) >= MAX_KEPT:
            connection.abort()
            return
        connection.rest()
        self._resting.setdefault(key, []).append(connection)

    def close(self) -> None:
        for waiting in self._resting.values():
            for each in waiting:
                each.abort()
        self._resting.clear()

    def _drop_old(self) -> None:
        oldest = time.monotonic() - MAX_IDLE_SECONDS
        for key, waiting in list(self._resting.items()):
            while waiting and waiting[0].idle_at < oldest:
                waiting.pop(0).abort()
            if not waiting:
                del self._resting[key]


async def opened(
    addresses: Sequence[str], host: str, port: int, tls: ssl.SSLContext | None, seconds: float
) -> OutgoingConnection:
    """Connect to the first address that answers. Each has its share of the time."""
    last: OSError = ConnectionError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(seconds / len(addresses)):
                return await _opened(address, host, port, tls)
        except OSError as error:  # a TimeoutError is one, too
            last = error
    raise last


async def _opened(address: str, host: str, port: int, tls: ssl.SSLContext | None) -> OutgoingConnection:
    """Do what `asyncio.open_connection` does, with a reader of our own."""
    loop = asyncio.get_running_loop()
    reader = _WatchedReader(limit=READ_BYTES, loop=loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.create_connection(
        lambda: protocol, address, port, ssl=tls, server_hostname=host if tls else None
    )
    return OutgoingConnection(reader, asyncio.StreamWriter(transport, protocol, reader, loop))


class _WatchedReader(asyncio.StreamReader):
    """Knows whether something has arrived while nobody had asked: the next answer would begin with it."""

    is_resting = False
    is_spoiled = False

    def feed_data(self, data: Iterable[SupportsIndex]) -> None:
        self.is_spoiled |= self.is_resting
        super().feed_data(data)

    def feed_eof(self) -> None:
        self.is_spoiled |= self.is_resting
        super().feed_eof()
