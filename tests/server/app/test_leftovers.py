"""What accumulates is removed, in small batches, and whatever is still needed stays."""

import asyncio
from typing import Any

import pytest

from terracrew import ids
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.first_start import first_start
from terracrew.server.retention import leftovers
from terracrew.server.retention.leftovers import DAY_SECONDS, Leftovers
from terracrew.testing.job_rows import Instance, JobRows

pytestmark = pytest.mark.feature("O3")
OLD_SECONDS = 31 * DAY_SECONDS


def pruned(database: Database) -> Leftovers:
    return Leftovers(database, "one", 30.0)


async def _age(tx: Tx, *instances: Instance) -> None:
    for instance in instances:
        await tx.run(
            "UPDATE instances SET is_connected = false, disconnected_at = :at WHERE id = :id",
            id=instance.id,
            at=tx.now - OLD_SECONDS,
        )


async def _ids(database: Database, sql: Any) -> set[str]:
    return {row["id"] for row in await database.read(lambda tx: tx.all(sql))}


async def test_instances_that_do_not_come_back_are_removed_and_their_attempts_keep_the_name(database: Database) -> None:
    """`instances` only grew: each host that ever connected stayed a row, and every list of runners read them all."""
    world = await JobRows.make(database)
    here, recent, unused, worked = [await world.runner() for _ in range(4)]
    job = await world.job(await world.module())
    await worked.has(job)
    await database.write(lambda tx: tx.run("UPDATE attempts SET ended_at = :now, outcome = 'succeeded'", now=tx.now))
    await database.write(lambda tx: tx.run("UPDATE jobs SET status = 'SUCCEEDED', finished_at = :now", now=tx.now))
    await database.write(lambda tx: _age(tx, unused, worked))
    await database.write(
        lambda tx: tx.run(
            "UPDATE instances SET is_connected = false, disconnected_at = :now WHERE id = :id", id=recent.id, now=tx.now
        )
    )
    assert await pruned(database).step() == {"instances": 2}
    assert await _ids(database, "SELECT id FROM instances") == {here.id, recent.id}
    assert await _ids(database, "SELECT id FROM removed") == {worked.id}, "an attempt shows this one's name"


@pytest.mark.parametrize(
    "needed",
    [
        "UPDATE attempts SET lost_at = claimed_at",
        "UPDATE attempts SET ended_at = claimed_at, outcome = 'lost', is_in_doubt = true",
        "UPDATE attempts SET ended_at = claimed_at, outcome = 'waiting'",
    ],
)
async def test_an_instance_that_may_still_be_needed_stays_however_old(database: Database, needed: Any) -> None:
    world = await JobRows.make(database)
    instance = await world.runner()
    job = await world.job(await world.module())
    await instance.has(job)
    await database.write(lambda tx: tx.run(needed))
    if "waiting" in needed:
        await database.write(
            lambda tx: tx.run(
                """INSERT INTO plans (job_id, attempt, state_version, inputs_sha256, path, sha256, size, made_at, decide_by)
                VALUES (:id, 1, 0, '', '', '', 1, 0, 0)""",
                id=job,
            )
        )
    await database.write(lambda tx: _age(tx, instance))
    assert await pruned(database).step() == {}
    assert await _ids(database, "SELECT id FROM instances") == {instance.id}


async def test_a_name_goes_with_the_last_attempt_that_shows_it(database: Database) -> None:
    world = await JobRows.make(database)
    instance = await world.runner()
    await instance.has(await world.job(await world.module()))
    names = [instance.id, instance.runner_id, ids.new("ins")]

    async def remove(tx: Tx) -> None:
        for name in names:
            at = tx.now - OLD_SECONDS
            await tx.run("INSERT INTO removed (id, name, removed_at) VALUES (:id, 'n', :at)", id=name, at=at)

    await database.write(remove)
    assert await pruned(database).step() == {"names of removed runners": 1}
    assert await _ids(database, "SELECT id FROM removed") == set(names[:2])


async def test_old_jobs_stay_and_their_idempotency_keys_go(database: Database) -> None:
    world = await JobRows.make(database)
    module = await world.module()
    old, new = await world.job(module), await world.job(module)

    async def work(tx: Tx) -> None:
        await tx.run("UPDATE jobs SET idempotency_key = id")
        await tx.run("UPDATE jobs SET created_at = created_at - :age WHERE id = :id", age=OLD_SECONDS, id=old)

    await database.write(work)
    assert await pruned(database).step() == {"idempotency keys": 1}
    assert await _ids(database, "SELECT idempotency_key AS id FROM jobs") == {None, new}


async def test_expired_credentials_are_removed_tokens_and_secrets_only_after_a_while(database: Database) -> None:
    assert await first_start(database)

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
        await tx.run("UPDATE one_time_links SET expires_at = :at", at=tx.now - 1)

    await database.write(make)
    assert await pruned(database).step() == {"one-time links": 1, "API tokens": 1}
    assert await _ids(database, "SELECT id FROM api_tokens") == {"fresh", "endless"}


async def test_one_server_removes_batch_by_batch_and_lets_others_write_in_between(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "BATCH_ROWS", 2)
    world = await JobRows.make(database)
    instances = [await world.runner() for _ in range(5)]
    await database.write(lambda tx: _age(tx, *instances))
    pruning = asyncio.create_task(pruned(database).step())
    counts = set[int]()
    async with asyncio.timeout(20):
        while not pruning.done():
            counts.add(len(await _ids(database, "SELECT id FROM instances")))
            await asyncio.sleep(0.01)
    assert await pruning == {"instances": 5}
    assert counts & {1, 3}, "somebody else got a turn between two batches"
    assert await Leftovers(database, "two", 30.0).step() == {}, "the lease is the first one's"
