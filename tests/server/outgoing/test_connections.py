"""Connections to a host are used again for requests that want it, and for nothing else."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from terracrew.server.outgoing import connections
from terracrew.server.outgoing.client import OutgoingClient, OutgoingRequest
from terracrew.server.outgoing.destinations import Destinations

pytestmark = pytest.mark.feature("F2.polling")
LOOPBACK = Destinations.parse(["127.0.0.0/8"])


@dataclass
class Host:
    """A server that keeps connections. It answers each request with the number of the connection."""

    url: str = ""
    writers: list[asyncio.StreamWriter] = field(default_factory=list[asyncio.StreamWriter])
    ended: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    closes_on: int = 0
    """The request of a connection at which it closes the connection in place of an answer; 0: none."""
    ends_with: bytes = b""
    """What it sends after each answer."""
    headers: str = ""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        number = len(self.writers)
        for count in range(1, 100):
            try:
                await reader.readuntil(b"\r\n\r\n")
            except (OSError, asyncio.IncompleteReadError):
                break
            if count == self.closes_on:
                break
            body = str(number).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{self.headers}\r\n"
            writer.write(head.encode() + body + self.ends_with)
        writer.close()
        self.ended.release()


@asynccontextmanager
async def host() -> AsyncGenerator[tuple[Host, OutgoingClient]]:
    found, client = Host(), OutgoingClient(LOOPBACK)
    async with await asyncio.start_server(found.handle, "127.0.0.1", 0) as web:
        found.url = f"http://127.0.0.1:{web.sockets[0].getsockname()[1]}/"
        yield found, client
        client.close()
        web.close()
        for _ in found.writers:
            await found.ended.acquire()


async def asked(client: OutgoingClient, there: Host, organization: str = "org_1", *, keeps: bool = True) -> int:
    """Return the number of the connection that a request was answered on."""
    request = OutgoingRequest(there.url, keeps_connection=keeps)
    return int((await client.send(organization, request)).body)


async def test_a_connection_is_used_again_by_the_same_organization_for_requests_that_want_it() -> None:
    async with host() as (there, client):
        assert [await asked(client, there) for _ in range(3)] == [1, 1, 1]
        assert await asked(client, there, "org_2") == 2
        assert await asked(client, there, keeps=False) == 3
        assert await asked(client, there, keeps=False) == 4
        assert await asked(client, there) == 1


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    async with host() as (there, client):
        assert {*await asyncio.gather(*(asked(client, there) for _ in range(4)))} == {1, 2, 3, 4}
        again = await asyncio.gather(*(asked(client, there) for _ in range(4)))
        assert {*again} == {1, 2, 3, 4}


async def test_a_connection_that_the_host_has_closed_is_replaced() -> None:
    async with host() as (there, client):
        assert await asked(client, there) == 1
        there.writers[0].close()
        await there.writers[0].wait_closed()
        assert await asked(client, there) == 2
        there.closes_on = 2
        assert [await asked(client, there) for _ in range(3)] == [3, 4, 5]


async def test_nothing_that_arrives_between_two_requests_becomes_an_answer() -> None:
    """A host that answers before it is asked, or twice, would shift every later answer by one."""
    extra = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n9"
    async with host() as (there, client):
        there.ends_with = extra
        assert await asked(client, there) == 1
        there.ends_with = b""
        assert await asked(client, there) == 2
        there.writers[1].write(extra)
        await there.writers[1].drain()
        assert await asked(client, there, "org_2") == 3  # meanwhile it has arrived
        assert await asked(client, there) == 4


@pytest.mark.parametrize("limit", ["MAX_AGE_SECONDS", "MAX_IDLE_SECONDS", "MAX_KEPT"])
async def test_a_connection_is_not_kept_beyond_its_limits(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, limit, 0)
    async with host() as (there, client):
        assert [await asked(client, there) for _ in range(3)] == [1, 2, 3]


async def test_a_host_that_wants_to_close_is_left() -> None:
    async with host() as (there, client):
        there.headers = "Connection: close\r\n"
        assert [await asked(client, there) for _ in range(2)] == [1, 2]
