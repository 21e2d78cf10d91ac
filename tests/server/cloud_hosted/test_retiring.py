"""After an update, instances of the earlier revision get no job, end after the last one that they have, and are replaced."""

import msgspec
import pytest

from terracrew.api.deployments import CloudInstance
from terracrew.server.cloud_hosted import leaving, starting, watching
from terracrew.server.cloud_hosted.leaving import Idle
from terracrew.server.connections import store as connections
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudDeployment
from tests.builders.deliveries import DONE, delivery
from tests.builders.job_rows import Instance, JobRows
from tests.server.deployments.cloud_rows import cloud_runner

pytestmark = pytest.mark.feature("V3.update")


async def want(rows: JobRows, runner_id: str, count: int) -> list[str]:
    async def work(tx: Tx) -> list[str]:
        return [each.name for each in await starting.want(tx, await held(tx, runner_id), count)]

    return await rows.db.write(work)


async def held(tx: Tx, runner_id: str) -> CloudDeployment:
    found = await store.hold(tx, runner_id)
    assert found is not None
    return found


async def update(rows: JobRows, runner_id: str) -> None:
    """Let a deployment succeed."""

    async def work(tx: Tx) -> None:
        before = await held(tx, runner_id)
        after = msgspec.structs.replace(before, revision=before.revision + 1, version="0.1.0-rc.2")
        await store.save(tx, before, after)
        await leaving.retire_older(tx, after)

    await rows.db.write(work)


async def needed(rows: JobRows, runner_id: str, jobs: int = 0) -> list[CloudInstance]:
    return await rows.db.write(lambda tx: starting.decide(tx, runner_id, jobs))


async def retired(rows: JobRows, instance: Instance) -> str:
    sql = "SELECT retire_reason, is_draining FROM instances WHERE id = :id"
    row = await rows.db.read(lambda tx: tx.one(sql, id=instance.id))
    assert row is not None
    assert bool(row["is_draining"]) == bool(row["retire_reason"])
    return row["retire_reason"]


async def leave(rows: JobRows, instance: Instance, name: str) -> str:
    idle = Idle(instance.runner_id, instance.id, name, 1, 1.0)
    return await rows.db.write(lambda tx: leaving.leave(tx, idle))


async def test_a_busy_one_keeps_its_job_and_ends_after_it_and_a_new_one_takes_its_place(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows, min_instances=1, max_instances=4, capacity=1)
    [name] = await want(rows, runner_id, 1)
    old = await rows.instance_of(runner_id, name=name, slots=2)
    held_job = await old.start(await rows.job(await rows.module()))
    waiting = await rows.job(await rows.module())
    assert await needed(rows, runner_id) == []
    await update(rows, runner_id)
    assert await retired(rows, old) == "replaced by a newer deployment: 0.1.0-rc.2 was deployed"
    assert await old.claim(waiting) is None, "not even with a free slot"
    [new] = await needed(rows, runner_id)
    assert new.revision == 1
    assert await leave(rows, old, name) == "it has a job"
    await rows.take(delivery(held_job, 2, DONE))
    assert await leave(rows, old, name) == "", "neither the minimum nor the idle time keeps it"
    young = await rows.instance_of(runner_id, name=new.name, slots=1)
    assert await young.claim(waiting) is not None
    assert await retired(rows, young) == ""


async def test_one_that_says_hello_late_or_again_is_retired_like_the_others(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows, min_instances=0, max_instances=9, capacity=1)
    late, early = await want(rows, runner_id, 2)
    old = await rows.instance_of(runner_id, name=early, slots=1)
    await update(rows, runner_id)
    assert len(await needed(rows, runner_id, 1)) == 1, "what is coming of the earlier revision does not count"
    came = await rows.instance_of(runner_id, name=late, slots=1)

    async def is_due(tx: Tx) -> bool:
        live, present = (await reads.live_of(tx, [runner_id]))[runner_id], await reads.presence(tx, [runner_id])
        ran = [msgspec.structs.replace(each, status="running") for each in live]
        return watching.is_presence_new(1, ran, present[runner_id], tx.moment)

    assert await rows.db.read(is_due)
    await rows.db.write(lambda tx: watching.note_presence(tx, runner_id))
    assert await retired(rows, came)
    assert not await rows.db.read(is_due)
    reason = await retired(rows, old)
    await rows.db.write(lambda tx: connections.retire(tx, runner_id, [old.id], "again"))
    assert await retired(rows, old) == reason, "the first reason stays"
    await old.disconnect()
    assert await retired(rows, old) == reason


async def test_long_jobs_of_retired_ones_do_not_keep_new_ones_from_starting(rows: JobRows) -> None:
    """Otherwise an update would stop a runner with few instances for as long as its longest job."""
    runner_id = await cloud_runner(rows, min_instances=1, max_instances=1, capacity=4)
    [name] = await want(rows, runner_id, 1)
    old = await rows.instance_of(runner_id, name=name, slots=4)
    await old.start(await rows.job(await rows.module()))
    await update(rows, runner_id)
    [new] = await needed(rows, runner_id, 1)
    assert new.revision == 1
    assert await needed(rows, runner_id, 9) == [], "the new ones are limited as before"
    await update(rows, runner_id)
    assert [each.revision for each in await needed(rows, runner_id, 1)] == [2]
