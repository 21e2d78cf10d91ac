"""Reads small documents from the web, as clouds do: issuers of tokens, and registries of images."""

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from terracrew.client import transport
from terracrew.clouds.contract import CloudSilent

MAX_BODY_BYTES = 1024 * 1024
_CONNECT_SECONDS, _READ_SECONDS = 5.0, 10.0


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


def _fetch(url: str, headers: dict[str, str]) -> Fetched:
    import urllib3

    limits = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_READ_SECONDS)
    try:
        with transport.pool(url) as pool:
            answer = pool.request(
                "GET", url, headers=headers, timeout=limits, retries=False, redirect=False, preload_content=False
            )
            body = answer.read(MAX_BODY_BYTES)
            answer.close()
            return Fetched(answer.status, {name.lower(): value for name, value in answer.headers.items()}, body)
    except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        raise CloudSilent(f"{url} does not answer: {error}") from None
