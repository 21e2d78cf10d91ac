"""Tests the rows of deployments: their statuses, what a runner's record says, and how two writers meet."""

from datetime import timedelta

import msgspec
import pytest

from terracrew import ids
from terracrew.api.deployments import LIVE, TRANSITIONS, CloudInstance, CloudInstanceStatus, DeploymentSettings
from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import FIRST_START_SECONDS, CloudDeployment, instance_name
from tests.builders.job_rows import JobRows
from tests.server.deployments.cloud_rows import cloud_runner

STATUSES: tuple[CloudInstanceStatus, ...] = (*LIVE, "ended")


def _wanted(tx: Tx, runner_id: str, epoch: int = 1, number: int = 1) -> CloudInstance:
    row_id = ids.new("cin")
    name = instance_name(runner_id, epoch, number, row_id)
    return CloudInstance(id=row_id, runner_id=runner_id, name=name, epoch=epoch, wanted_at=tx.moment)


async def _can_wake(rows: JobRows, runner_id: str) -> bool:
    row = await rows.db.read(lambda tx: tx.one("SELECT can_wake FROM runners WHERE id = :id", id=runner_id))
    assert row is not None
    return bool(row["can_wake"])


async def test_a_deployment_is_stored_as_it_was_given(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows, max_instances=7, subnets=["subnet-1"])
    found = await rows.db.read(lambda tx: store.get(tx, runner_id))
    assert found is not None
    assert (found.settings.max_instances, found.settings.subnets, found.status) == (7, ["subnet-1"], "deployed")
    assert await rows.db.read(reads.has_any)
    assert await rows.db.read(lambda tx: reads.of_identity(tx, found.identity_id)) == [runner_id]


async def test_a_runner_can_be_woken_unless_the_cloud_has_just_refused(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows, status="new")
    assert not await _can_wake(rows, runner_id)

    async def deploy(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        await store.save(tx, held, msgspec.structs.replace(held, status="deployed", facts={"cluster": "c"}))

    async def refuse(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        later = tx.moment + timedelta(minutes=1)
        await store.save(tx, held, held.refused("quota", "You have reached the limit", tx.moment, later))

    async def accept(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        await store.save(tx, held, held.started_in(33.0))

    with rows.db.listen("assignments", "deployments") as woken:
        await rows.db.write(deploy)
        assert await woken.get(1) == {("assignments", runner_id), ("deployments", runner_id)}
    assert await _can_wake(rows, runner_id)
    await rows.db.write(refuse)
    assert not await _can_wake(rows, runner_id)
    await rows.db.write(accept)
    assert await _can_wake(rows, runner_id)
    await rows.db.write(lambda tx: store.delete(tx, runner_id))
    assert not await _can_wake(rows, runner_id)


@pytest.mark.parametrize("before", STATUSES)
async def test_an_instance_goes_only_where_the_table_says(rows: JobRows, before: CloudInstanceStatus) -> None:
    runner_id = await cloud_runner(rows)

    async def work(tx: Tx) -> None:
        for number, after in enumerate(STATUSES):
            ended_at = tx.moment if before == "ended" else None
            each = msgspec.structs.replace(_wanted(tx, runner_id, number=number), status=before, ended_at=ended_at)
            await store.insert_instances(tx, [each])
            if after in TRANSITIONS[before]:
                assert await store.save_instance(tx, each, each.to(after, tx.moment, "why"))
                stale = each.to(next(iter(TRANSITIONS[before])), tx.moment)
                assert not await store.save_instance(tx, each, stale)  # a second writer comes too late
            else:
                with pytest.raises(Conflict):
                    each.to(after, tx.moment)

    await rows.db.write(work)


async def test_old_ended_instances_are_forgotten(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows)

    async def work(tx: Tx) -> None:
        for epoch in range(1, store.MAX_KEPT_ENDED + 5):
            each = _wanted(tx, runner_id, epoch)
            await store.insert_instances(tx, [each])
            at = tx.moment + timedelta(seconds=epoch)
            await store.save_instance(tx, each, each.to("ended", at, "it left"))
        await store.insert_instances(tx, [_wanted(tx, runner_id, 99)])

    await rows.db.write(work)
    found = await rows.db.read(lambda tx: reads.instances(tx, runner_id))
    assert [each.epoch for each in found] == [99, *range(store.MAX_KEPT_ENDED + 4, 4, -1)]
    assert list(await rows.db.read(lambda tx: reads.live_of(tx, [runner_id]))) == [runner_id]
    assert (await rows.db.read(reads.activity)).awake == (runner_id,)


def test_the_typical_start_is_the_median_of_the_last_ones() -> None:

    known = CloudDeployment(runner_id="rnr_1", identity_id="cid_1", settings=DeploymentSettings())
    assert known.typical_start_seconds == FIRST_START_SECONDS
    for seconds in (300.0, *[40.0, 30.0, 50.0] * 3):
        known = known.started_in(seconds)
    assert known.typical_start_seconds == 40.0
    assert len(known.start_seconds) == 9
