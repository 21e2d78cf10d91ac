"""Rows that accumulate are removed in small batches, and rows that something still needs stay."""

import asyncio
from typing import Any

import pytest

from terracrew import ids
from terracrew.server.db.seam import Database, Tx
from terracrew.server.maintenance.local_token import first_start
from terracrew.server.retention import leftovers
from terracrew.server.retention.leftovers import DAY_SECONDS, Leftovers
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import Instance, JobRows, change_jobs
from tests.server.jobs.changes import Change
from tests.server.jobs.waiting_jobs import Waiting

OLD_SECONDS = 31 * DAY_SECONDS


def pruned(database: Database) -> Leftovers:
    return Leftovers(database, "one", 30.0)


async def _ids(database: Database, sql: Any) -> set[str]:
    return {row["id"] for row in await database.read(lambda tx: tx.all(sql))}


async def test_instances_that_do_not_come_back_are_removed_and_their_attempts_keep_the_name(
    rows: JobRows, clock: ShiftedClock
) -> None:
    """`instances` only grew: each host that ever connected stayed a row, and every list of runners read them all."""
    here, recent, unused, worked = [await rows.runner() for _ in range(4)]
    await worked.finish(await rows.job(await rows.module()))
    await unused.disconnect()
    await worked.disconnect()
    clock.advance(OLD_SECONDS)
    await recent.disconnect()
    assert await pruned(rows.db).step() == {"instances": 2}
    assert await _ids(rows.db, "SELECT id FROM instances") == {here.id, recent.id}
    assert await _ids(rows.db, "SELECT id FROM removed") == {worked.id}, "an attempt shows this one's name"


async def changing(database: Database) -> Instance:
    return (await Change.begun(database)).runner


async def in_doubt(database: Database) -> Instance:
    change = await Change.begun(database)
    await change.gone(last=None, is_delivered=False)
    assert (await change.attempt()).is_in_doubt
    return change.runner


async def with_a_plan_that_waits(database: Database) -> Instance:
    return (await Waiting.make(database)).runner


@pytest.mark.parametrize("needed", [changing, in_doubt, with_a_plan_that_waits])
async def test_an_instance_that_may_still_be_needed_stays_however_old(
    database: Database, clock: ShiftedClock, needed: Any
) -> None:
    instance = await needed(database)
    await instance.disconnect()
    clock.advance(OLD_SECONDS)
    assert await pruned(database).step() == {}
    assert await _ids(database, "SELECT id FROM instances") == {instance.id}


async def test_a_name_goes_with_the_last_attempt_that_shows_it(rows: JobRows, clock: ShiftedClock) -> None:
    instance = await rows.runner()
    await instance.has(await rows.job(await rows.module()))
    names = [instance.id, instance.runner_id, ids.new("ins")]
    for name in names:
        await rows.run("INSERT INTO removed (id, name, removed_at) VALUES (:id, 'n', :now)", id=name, now=clock())
    clock.advance(OLD_SECONDS)
    assert await pruned(rows.db).step() == {"names of removed runners": 1}
    assert await _ids(rows.db, "SELECT id FROM removed") == set(names[:2])


async def test_old_jobs_stay_and_their_idempotency_keys_go(rows: JobRows, clock: ShiftedClock) -> None:
    module = await rows.module()
    old = await rows.job(module)
    clock.advance(OLD_SECONDS)
    new = await rows.job(module)
    for job in (old, new):
        await change_jobs(rows.db, job, idempotency_key=job)
    assert await pruned(rows.db).step() == {"idempotency keys": 1}
    assert await _ids(rows.db, "SELECT idempotency_key AS id FROM jobs") == {None, new}


async def test_expired_credentials_are_removed_tokens_and_secrets_only_after_a_while(
    database: Database, clock: ShiftedClock
) -> None:
    assert await first_start(database)
    clock.advance(OLD_SECONDS)

    async def make(tx: Tx) -> None:
        user = await tx.one("SELECT id FROM users")
        assert user is not None
        for name, age in (("fresh", 1.0), ("old", OLD_SECONDS), ("endless", None)):
            await tx.run(
                """INSERT INTO api_tokens (id, user_id, name, token_sha256, created_at, expires_at)
                VALUES (:id, :user, :id, :id, 0, :at)""",
                id=name,
                user=user["id"],
                at=None if age is None else tx.now - age,
            )

    await database.write(make)
    assert await pruned(database).step() == {"one-time links": 1, "API tokens": 1}
    assert await _ids(database, "SELECT id FROM api_tokens") == {"fresh", "endless"}


async def test_one_server_removes_batch_by_batch_and_lets_others_write_in_between(
    rows: JobRows, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "BATCH_ROWS", 2)
    for _ in range(5):
        await (await rows.runner()).disconnect()
    clock.advance(OLD_SECONDS)
    pruning = asyncio.create_task(pruned(rows.db).step())
    counts = set[int]()
    async with asyncio.timeout(20):
        while not pruning.done():
            counts.add(len(await _ids(rows.db, "SELECT id FROM instances")))
            await asyncio.sleep(0.01)
    assert await pruning == {"instances": 5}
    assert counts & {1, 3}, "somebody else got a turn between two batches"
    assert await Leftovers(rows.db, "two", 30.0).step() == {}, "the lease is the first one's"
