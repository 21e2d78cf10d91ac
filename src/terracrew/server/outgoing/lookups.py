"""Looks up the addresses of hosts in threads of its own, so that names that nobody resolves stop only those who gave them."""

import asyncio
import socket
from concurrent.futures import ThreadPoolExecutor

from terracrew.server.outgoing.answers import NotSent

MAX_LOOKUPS = 64
MAX_LOOKUPS_PER_ORGANIZATION = 8
"""A lookup cannot be ended, so it outlasts the request that gave it up."""


class Lookups:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(MAX_LOOKUPS, "outgoing-lookup")
        self._under_way: dict[tuple[str, str], asyncio.Future[list[str]]] = {}

    async def addresses(self, organization_id: str, host: str) -> list[str]:
        """Return the addresses of a host. Who is cancelled leaves the lookup to the next one that asks for the same host."""
        key = organization_id, host
        lookup = self._under_way.get(key)
        if lookup is None:
            if sum(owner == organization_id for owner, _ in self._under_way) >= MAX_LOOKUPS_PER_ORGANIZATION:
                raise NotSent(f"{host} is not looked up: the resolver has not answered for other hosts yet")
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
