"""Servers of two versions on one PostgreSQL: before a change that the older one cannot use, it ends, and nothing is changed earlier."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from terracrew.errors import Conflict, Incompatible, Unavailable
from terracrew.server import membership
from terracrew.server.db import Database, Tx, migrate, open_database, servers
from terracrew.server.db.migrate import Migration, known, newest_known
from terracrew.server.membership import Closing, Membership
from terracrew.server.objects import open_objects
from terracrew.server.readiness import Readiness
from tests.builders.clock import ShiftedClock

pytestmark = pytest.mark.postgres
FUTURE = known()[-1].number + 1
CHANGE = Migration(FUTURE, "of_tomorrow", ("CREATE TABLE tomorrow (id text)",))
ADDITION = CHANGE._replace(lets_older_continue=True)


@pytest.fixture
async def older(postgres_url: str, clock: ShiftedClock) -> AsyncIterator[Database]:
    db = await open_database(postgres_url, clock)
    yield db
    await db.close()


@pytest.fixture
async def newer(postgres_url: str, clock: ShiftedClock) -> AsyncIterator[Database]:
    db = await open_database(postgres_url, clock)
    yield db
    await db.close()


async def upgrade(db: Database, *changes: Migration) -> list[Migration]:
    """Do what a server of a newer version does at its start."""
    return await migrate.migrate(db.write, [*known(), *changes], has_other_servers=True)


@contextlib.asynccontextmanager
async def upgrading(db: Database, *changes: Migration) -> AsyncGenerator["asyncio.Task[list[Migration]]"]:
    """Start an upgrade, and go on when it has announced its change."""

    async def is_announced(tx: Tx) -> bool:
        return await servers.find_problem(tx, newest_known()) is not None

    task = asyncio.create_task(upgrade(db, *changes))
    while not await db.read(is_announced):
        await asyncio.sleep(0.01)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Conflict):
            await task


async def has_changed(db: Database) -> bool:
    row = await db.read(lambda tx: tx.one("SELECT to_regclass('tomorrow') IS NOT NULL AS yes"))
    return row is not None and bool(row["yes"])


async def test_an_older_server_ends_before_a_change_that_it_cannot_use(
    older: Database, newer: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "NOTICE_SECONDS", 0.2)
    await membership.join(older, "srv_old")
    closing = Closing()
    loop = Membership(older, "srv_old", closing)
    await loop.step()
    assert closing.error is None
    async with upgrading(newer, CHANGE) as upgrade:
        await loop.step()
        assert isinstance(closing.error, Incompatible)
        assert f"knows the database up to version {FUTURE - 1}" in closing.error.message
        assert "its runners go on with the newer server. Install Terracrew" in closing.error.message
        assert not closing.is_set(), "load balancers have a moment"
        readiness = Readiness(older, open_objects("memory://"), closing)
        with pytest.raises(Unavailable, match=rf"this server ends: .* version {FUTURE}\b"):
            await readiness.check(needs_objects=False)
        await asyncio.wait_for(closing.wait(), 5)
        await loop.step()  # it still ends, and renews its row
        assert not await has_changed(newer)
        await membership.leave(older, "srv_old")
        assert await asyncio.wait_for(upgrade, 5) == [CHANGE]
    with pytest.raises(Incompatible, match=f"has changed the database to its version {FUTURE}"):
        await membership.join(older, "srv_restarted")


async def test_nobody_ends_for_an_addition(older: Database, newer: Database) -> None:
    await membership.join(older, "srv_old")
    assert await upgrade(newer, ADDITION) == [ADDITION]
    closing = Closing()
    await Membership(older, "srv_old", closing).step()
    await membership.join(older, "srv_restarted")
    assert closing.error is None


async def test_a_server_that_was_killed_is_waited_for_until_its_lease_is_over(
    older: Database, newer: Database, clock: ShiftedClock
) -> None:
    await membership.join(older, "srv_old")
    await Membership(older, "srv_old", Closing()).step()
    async with upgrading(newer, CHANGE) as upgrade:
        clock.advance(servers.LEASE_SECONDS / 2)
        await asyncio.sleep(2 * migrate.PAUSE_SECONDS)
        assert not await has_changed(newer)
        clock.advance(servers.LEASE_SECONDS)
        assert await asyncio.wait_for(upgrade, 5) == [CHANGE]


async def test_a_server_that_finds_the_change_made_ends_at_once(older: Database, newer: Database) -> None:
    """It was suspended for longer than its lease."""
    closing = Closing()
    await upgrade(newer, CHANGE)
    await Membership(older, "srv_old", closing).step()
    await asyncio.wait_for(closing.wait(), 1)
    assert closing.error is not None


async def test_a_newer_server_says_which_server_does_not_end_and_changes_nothing(
    older: Database, newer: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "MAX_WAIT_SECONDS", 0.2)
    await membership.join(older, "srv_old")
    with pytest.raises(
        Conflict, match=r"still used by srv_old \(Terracrew .*Stop these servers, and start this one again"
    ):
        await upgrade(newer, CHANGE)
    assert not await has_changed(newer)
    closing = Closing()
    await Membership(older, "srv_old", closing).step()
    assert closing.error is None, "the announcement has gone with the server that made it"


async def test_older_servers_start_again_some_time_after_a_newer_one_was_killed_while_it_waited(
    older: Database, newer: Database, clock: ShiftedClock
) -> None:
    """Its announcement would have kept everybody out, and nobody had changed anything."""
    await newer.write(
        lambda tx: servers.renew(tx, "srv_new", FUTURE, announced=FUTURE, seconds=migrate.ANNOUNCED_SECONDS)
    )
    with pytest.raises(Incompatible):
        await membership.join(older, "srv_old")
    clock.advance(migrate.ANNOUNCED_SECONDS + 1)
    await membership.join(older, "srv_old")
    clock.advance(servers.FIRST_LEASE_SECONDS)
    await Membership(older, "srv_old", Closing()).step()
    count = await older.read(lambda tx: tx.one("SELECT count(*) AS count FROM servers"))
    assert count == {"count": 1}, "and rows of servers that were killed do not stay"


async def test_no_older_server_starts_while_a_newer_one_waits(
    older: Database, newer: Database, postgres_url: str
) -> None:
    await membership.join(older, "srv_old")
    async with upgrading(newer, CHANGE):
        with pytest.raises(Incompatible, match="is starting and waits to change the database"):
            await membership.join(older, "srv_restarted")
        with pytest.raises(Incompatible, match="is starting and waits to change the database"):
            await open_database(postgres_url)


async def test_an_older_server_that_starts_together_with_a_newer_one_ends_or_is_waited_for(
    older: Database, newer: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrate, "MAX_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(migrate, "PAUSE_SECONDS", 0.0)
    refused = waited = 0

    async def join(delay: float) -> None:
        await asyncio.sleep(delay)
        await membership.join(older, "srv_old")

    async def start(delay: float) -> None:
        await asyncio.sleep(delay)
        await upgrade(newer, CHANGE)

    for turn in range(30):
        joined, started = await asyncio.gather(
            join(turn % 6 / 1000), start(turn * 7 % 10 / 1000), return_exceptions=True
        )
        assert joined is not None or started is not None, "one of them has seen the other one"
        refused += isinstance(joined, Incompatible)
        waited += isinstance(started, Conflict)
        await newer.write(_undo)
    assert refused + waited >= 30


async def _undo(tx: Tx) -> None:
    await tx.run("DROP TABLE IF EXISTS tomorrow")
    await tx.run("DELETE FROM migrations WHERE number >= :number", number=FUTURE)
    await tx.run("DELETE FROM servers")
