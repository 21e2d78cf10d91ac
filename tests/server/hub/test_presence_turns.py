"""Servers on one PostgreSQL take turns in looking for silent instances, so that more servers do not cost more."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import LiteralString

import pytest

from terracrew.server.connections.registry import Registry
from terracrew.server.db import Database, lease, open_database
from terracrew.server.db.seam import Param
from terracrew.server.history.points import History
from terracrew.server.hub.context import ConnectionContext
from terracrew.server.hub.presence import MAX_SCAN_SECONDS, SCAN_SECONDS, Presence
from terracrew.server.rekey.key_holders import LEASE_PREFIX
from terracrew.server.supervise import Tasks
from tests.builders.clock import ManualClock
from tests.builders.job_rows import KEYS
from tests.server.hub.statement_counts import RecordingTx, on_each_unit

FOREVER_SECONDS = 1e6


class Servers:
    """Servers whose clocks, and that of their database, stand still until they are moved."""

    def __init__(self, db: Database, monkeypatch: pytest.MonkeyPatch, clock: ManualClock) -> None:
        self._db, self._clock = db, clock
        self._said: list[tuple[LiteralString, dict[str, Param]]] = []
        on_each_unit(db, monkeypatch, lambda tx: RecordingTx(tx, self._said))

    async def make(self, server_id: str) -> Presence:
        await self.announce(server_id)
        return Presence(
            ConnectionContext(server_id, self._db, Registry(self._clock), History(KEYS), Tasks(), asyncio.Event())
        )

    async def announce(self, server_id: str) -> None:
        await lease.acquire(self._db, LEASE_PREFIX + server_id, "key", FOREVER_SECONDS)

    async def has_scanned(self, server: Presence) -> bool:
        """Let a server look once, and return whether it has read the instances of all servers."""
        self._said.clear()
        await server.step()
        return any("heard_at < :since" in sql for sql, _ in self._said)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_000_000.0)


@pytest.fixture
async def alone(database_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    db = await open_database(database_url, clock)
    yield Servers(db, monkeypatch, clock)
    await db.close()


@pytest.fixture
async def servers(postgres_url: str, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    db = await open_database(postgres_url, clock)
    yield Servers(db, monkeypatch, clock)
    await db.close()


async def test_a_server_that_is_alone_scans_once_in_each_turn(alone: Servers, clock: ManualClock) -> None:
    one = await alone.make("srv_1")
    found: list[bool] = []
    for _ in range(10):
        found.append(await alone.has_scanned(one))
        clock.advance(SCAN_SECONDS / 2)
    assert found == [True, False] * 5


@pytest.mark.postgres
async def test_each_turn_is_that_of_one_server(servers: Servers, clock: ManualClock) -> None:
    everybody = [await servers.make(f"srv_{number}") for number in range(3)]
    assert [await servers.has_scanned(each) for each in everybody] == [True] * 3, (
        "each looks at once when it has started"
    )
    scans: list[list[bool]] = []
    for _ in range(6):
        clock.advance(SCAN_SECONDS)
        scans.append([await servers.has_scanned(each) for each in everybody])
    assert [sum(turn) for turn in scans] == [1] * 6
    assert [sum(of_server) for of_server in zip(*scans, strict=True)] == [2] * 3


@pytest.mark.postgres
async def test_a_server_does_not_wait_for_the_turns_of_many_that_were_killed(
    servers: Servers, clock: ManualClock
) -> None:
    for number in range(50):
        await servers.announce(f"srv_killed_{number}")
    survivor = await servers.make("srv_survivor")
    scanned_at = [clock.now] if await servers.has_scanned(survivor) else []
    for _ in range(200):
        clock.advance(1)
        if await servers.has_scanned(survivor):
            scanned_at.append(clock.now)
    gaps = [later - earlier for earlier, later in itertools.pairwise(scanned_at)]
    assert gaps
    assert max(gaps) <= MAX_SCAN_SECONDS
