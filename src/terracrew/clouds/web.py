"""Reads small documents from the web, as clouds do: issuers of tokens, and registries of images."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

from terracrew.client import transport
from terracrew.client.public_addresses import is_public
from terracrew.clouds.contract import CloudSilent

if TYPE_CHECKING:
    import urllib3

MAX_BODY_BYTES = 1024 * 1024
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 10.0
_HTTPS_PORT = 443
_MAX_SHOWN_CHARACTERS = 200


class Fetched(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    """Names are in lower case."""
    body: bytes


Fetch = Callable[[str, dict[str, str]], Awaitable[Fetched]]
"""Reads a URL with these headers. Raises CloudSilent if nobody answers."""


async def fetch(url: str, headers: dict[str, str]) -> Fetched:
    """Read a URL. A redirect is an answer like any other, and a long body is cut."""
    return await asyncio.to_thread(_fetch, url, headers)


async def fetch_public(url: str, headers: dict[str, str]) -> Fetched:
    """Read an https URL that somebody has named, if all addresses of its host are public. The connection goes to one of them.

    Whoever names it must not be able to look around in the network of the server.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or _HTTPS_PORT
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):
        raise CloudSilent(f"{url[:_MAX_SHOWN_CHARACTERS]} has no address here") from None
    addresses = [str(each[4][0]) for each in found]
    if parts.scheme != "https" or not all(map(is_public, addresses)):
        raise CloudSilent(f"{host} has no public address here")
    return await asyncio.to_thread(fetch_at, addresses[0], url, headers)


def fetch_at(address: str, url: str, headers: dict[str, str]) -> Fetched:
    """Read an https URL from this address, whose certificate must be that of the URL's host. Raises CloudSilent."""
    import urllib3

    parts = urlsplit(url)
    pool = urllib3.HTTPSConnectionPool(
        address, parts.port or _HTTPS_PORT, server_hostname=parts.hostname, assert_hostname=parts.hostname
    )
    target = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
    with pool:
        return _asked(pool, target, url, headers | {"Host": parts.netloc})


def _fetch(url: str, headers: dict[str, str]) -> Fetched:
    with transport.pool(url) as pool:
        return _asked(pool, url, url, headers)


def _asked(
    pool: "urllib3.PoolManager | urllib3.HTTPSConnectionPool", target: str, url: str, headers: dict[str, str]
) -> Fetched:
    import urllib3

    limits = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
    try:
        answer = pool.request(
            "GET", target, headers=headers, timeout=limits, retries=False, redirect=False, preload_content=False
        )
        body = answer.read(MAX_BODY_BYTES)
        answer.close()
        return Fetched(answer.status, {name.lower(): value for name, value in answer.headers.items()}, body)
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise CloudSilent(f"{url} does not answer: {error}") from None
