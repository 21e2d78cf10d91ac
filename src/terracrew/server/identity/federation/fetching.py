"""Fetches small public documents from issuers. An address that somebody configured cannot make this server ask its own network.

The name is resolved once, every address that it has must be public, and the connection goes to one of these addresses: an answer of the
DNS that changes afterwards changes nothing. There are no redirects, no proxy, no cookies; time and size are bounded.
"""

import asyncio
import socket
import ssl
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from urllib.parse import SplitResult, urlsplit

import h11

from terracrew import __version__
from terracrew.client.public_addresses import is_public
from terracrew.server.identity.federation import rules
from terracrew.server.identity.federation.model import TokenRefused

FETCH_SECONDS = 5.0
"""For one document, from the lookup of its name to its last byte."""
_MAX_HEADER_BYTES = 16 << 10
_READ_BYTES = 16 << 10
_ACCEPTED = "application/json, application/jwk-set+json"
"""Kubernetes refuses a request for its keys that does not accept the second one."""
_MAX_ADDRESSES = 4


class Fetcher:
    def __init__(self, allowed_origins: frozenset[str] = frozenset()) -> None:
        """`allowed_origins` may be fetched without TLS and may have private addresses; `rules.origin` says how they are written."""
        self._allowed = allowed_origins
        self._lookups = Lookups()

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return ssl.create_default_context()

    async def get(self, url: str, max_bytes: int, organization_id: str = "") -> bytes:
        """Return the body of an answer 200 for an organization. Raises TokenRefused with what went wrong."""
        try:
            parts = urlsplit(url)
            is_allowed = rules.origin(url) in self._allowed
            port = parts.port or (443 if parts.scheme == "https" else 80)
        except ValueError:
            raise TokenRefused(f"{url[:200]!r} is not an address") from None
        if not parts.hostname or (parts.scheme != "https" and not (is_allowed and parts.scheme == "http")):
            raise TokenRefused(f"{url[:200]!r} is not an https address")
        try:
            async with asyncio.timeout(FETCH_SECONDS):
                addresses = await self._addresses(organization_id, parts.hostname, is_private_allowed=is_allowed)
                reader, writer = await self._connect(addresses, parts, port)
                try:
                    return await _get(reader, writer, parts, max_bytes)
                finally:
                    writer.transport.abort()
        except TimeoutError:
            raise TokenRefused(f"{parts.hostname} did not answer within {FETCH_SECONDS:g} seconds") from None
        except (OSError, h11.ProtocolError, UnicodeError) as error:
            raise TokenRefused(f"{parts.hostname} cannot be asked: {type(error).__name__}") from None

    async def _addresses(self, organization_id: str, host: str, *, is_private_allowed: bool) -> list[str]:
        addresses = await self._lookups.addresses(organization_id, host)
        if not is_private_allowed and not all(is_public(each) for each in addresses):
            raise TokenRefused(f"{host} has an address that is not public, and the server's settings do not allow that")
        return addresses[:_MAX_ADDRESSES]

    async def _connect(
        self, addresses: list[str], parts: SplitResult, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        tls, name = (self._tls, parts.hostname) if parts.scheme == "https" else (None, None)
        last: OSError = ConnectionError("no address")
        for address in addresses:
            try:
                return await asyncio.open_connection(address, port, limit=_READ_BYTES, ssl=tls, server_hostname=name)
            except OSError as error:
                last = error
        raise last


async def _get(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, parts: SplitResult, max_bytes: int) -> bytes:
    connection, body = h11.Connection(h11.CLIENT, max_incomplete_event_size=_MAX_HEADER_BYTES), bytearray()
    headers = [
        ("Host", parts.netloc),
        ("Accept", _ACCEPTED),
        ("Accept-Encoding", "identity"),
        ("User-Agent", "terracrew/" + __version__),
        ("Connection", "close"),
    ]
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    writer.write(connection.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
    writer.write(connection.send(h11.EndOfMessage()) or b"")
    await writer.drain()
    while True:
        match connection.next_event():
            case h11.NEED_DATA:
                connection.receive_data(await reader.read(_READ_BYTES))
            case h11.Response(status_code=status) if status != 200:
                raise TokenRefused(f"{parts.hostname} answered {status}")
            case h11.Data(data=data):
                body += data
                if len(body) > max_bytes:
                    raise TokenRefused(f"{parts.hostname} answered with more than {max_bytes} bytes")
            case h11.EndOfMessage():
                return bytes(body)
            case h11.ConnectionClosed() | h11.PAUSED:
                raise TokenRefused(f"{parts.hostname} ended the connection")
            case _:
                pass


MAX_LOOKUPS = 64
MAX_LOOKUPS_PER_ORGANIZATION = 8
"""Twice as many as an organization has fetches, so that some names that nobody resolves stop no other ones."""


class Lookups:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, "issuer-lookup")
        self._under_way: dict[tuple[str, str], asyncio.Future[list[str]]] = {}

    async def addresses(self, organization_id: str, host: str) -> list[str]:
        """Return the addresses of a host. Who is cancelled leaves the lookup to the next one that asks for the same host."""
        key = organization_id, host
        lookup = self._under_way.get(key)
        if lookup is None:
            if sum(owner == organization_id for owner, _ in self._under_way) >= MAX_LOOKUPS_PER_ORGANIZATION:
                raise TokenRefused(f"{host} is not looked up: the resolver has not answered for other issuers yet")
            lookup = asyncio.get_running_loop().run_in_executor(self._threads, _addresses, host)
            self._under_way[key] = lookup
            lookup.add_done_callback(lambda done: self._end(key, done))
        return await asyncio.shield(lookup)

    def _end(self, key: tuple[str, str], lookup: asyncio.Future[list[str]]) -> None:
        del self._under_way[key]
        if not lookup.cancelled():
            lookup.exception()  # if nobody waits any more, its error is no news


def _addresses(host: str) -> list[str]:
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
