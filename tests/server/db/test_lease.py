"""One server at a time holds a lease, which is a row."""

import asyncio

from terracrew.server.db import Database, lease
from tests.builders.clock import ShiftedClock


async def test_one_of_many_gets_it_and_only_that_one_renews_it(database: Database) -> None:
    holders = [f"srv_{n}" for n in range(50)]
    got = await asyncio.gather(*(lease.acquire(database, "reaper", holder, 10) for holder in holders))
    assert got.count(True) == 1
    again = await asyncio.gather(*(lease.acquire(database, "reaper", holder, 10) for holder in holders))
    assert again == got


async def test_leases_of_different_names_are_independent(database: Database) -> None:
    assert await lease.acquire(database, "reaper", "srv_a", 10)
    assert await lease.acquire(database, "scaler", "srv_b", 10)


async def test_an_expired_lease_goes_to_exactly_one_other(database: Database, clock: ShiftedClock) -> None:
    assert await lease.acquire(database, "reaper", "srv_a", 10)
    clock.advance(9)
    assert not await lease.acquire(database, "reaper", "srv_b", 10)
    clock.advance(1)
    got = await asyncio.gather(*(lease.acquire(database, "reaper", f"srv_{n}", 10) for n in range(20)))
    assert got.count(True) == 1
    assert not await lease.acquire(database, "reaper", "srv_a", 10)


async def test_a_released_lease_is_free_at_once_and_only_its_holder_releases_it(database: Database) -> None:
    assert await lease.acquire(database, "reaper", "srv_a", 10)
    assert not await lease.release(database, "reaper", "srv_b")
    assert not await lease.acquire(database, "reaper", "srv_b", 10)
    assert await lease.release(database, "reaper", "srv_a")
    assert await lease.acquire(database, "reaper", "srv_b", 10)
