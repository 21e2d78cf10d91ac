"""A removal waits for the jobs of its runner, takes everything with it, and can be taken back before that."""

import asyncio

import pytest

from terracrew.api.deployments import CloudInstance
from terracrew.fleet.messages import DestroyWork
from terracrew.server.app import cloud_facts
from terracrew.server.cloud_hosted import destroy_jobs, starting
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from tests.server.cloud_hosted.played_fleet import FACTS, RUNNER, Fleet, deploy, deployed, until

pytestmark = pytest.mark.feature("W5.destroy")


async def test_a_removal_waits_for_jobs_and_takes_the_record_with_it(fleet: Fleet) -> None:
    made, instance = await deployed(fleet)
    runner_id = made["runner"]["id"]
    held = await instance.claimed(await fleet.rows.job(await fleet.rows.module()))
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    assert len(fleet.process.jobs) == 1, "nothing is removed while it has a job"
    await fleet.rows.gone(held)
    job = await fleet.process.given(2)
    assert isinstance(job.work, DestroyWork)
    fleet.process.end(job)
    assert await fleet.ended(gone) == "SUCCEEDED"
    assert (await fleet.application.admin.get(RUNNER)).status_code == 404
    assert await fleet.deployment(runner_id) is None


async def test_a_removal_waits_for_the_answer_of_the_cloud_that_starts_an_instance(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An instance that started after the removal had listed them would be left, and cost money."""
    monkeypatch.setattr(destroy_jobs, "LOOK_SECONDS", 0.02)
    made, _ = await deployed(fleet)
    runner_id, db = made["runner"]["id"], fleet.application.server.db
    wanted = await db.write(lambda tx: wanted_one(tx, runner_id))
    gone = await fleet.ask(f"{RUNNER}/destroy", {"force": True})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    await asyncio.sleep(0.2)
    assert len(fleet.process.jobs) == 1, "nothing is removed before the cloud has answered"
    assert await db.write(lambda tx: starting.take_unanswered(tx, runner_id)) == []
    await starting.ask(db, fleet.cloud, cloud_facts(fleet.application.server.settings), runner_id, wanted)
    assert len(fleet.cloud.started) == 1, "nothing is started behind the removal"
    assert isinstance((await fleet.process.given(2)).work, DestroyWork)


async def wanted_one(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Decide that an instance is started; the cloud was not asked yet."""
    held = await store.hold(tx, runner_id)
    assert held is not None
    return await starting.want(tx, held, 1)


async def test_a_cancel_before_anything_was_removed_takes_the_removal_back(fleet: Fleet) -> None:
    made, instance = await deployed(fleet)
    await instance.claimed(await fleet.rows.job(await fleet.rows.module()))
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    await fleet.cancel(gone)
    assert (await fleet.ended(gone)).startswith("CANCELED")
    after = await fleet.deployment(made["runner"]["id"])
    assert after is not None
    assert (after.status, after.facts) == ("deployed", FACTS)
    assert not (await fleet.application.admin.get(RUNNER)).json()["is_draining"]


async def test_a_removal_that_waits_for_a_deployment_can_be_taken_back(fleet: Fleet) -> None:
    made, job = await deploy(fleet)
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await fleet.cancel(gone)
    fleet.process.end(job, **FACTS)
    await fleet.hello(made["runner"]["id"], await fleet.started(made))
    assert await fleet.ended(made) == "SUCCEEDED"
    after = await fleet.deployment(made["runner"]["id"])
    assert after is not None
    assert (after.status, after.facts) == ("deployed", FACTS)
    assert not (await fleet.application.admin.get(RUNNER)).json()["is_draining"], "it would never be woken"


async def test_a_canceled_removal_leaves_a_drain_that_somebody_had_begun(fleet: Fleet) -> None:
    _, instance = await deployed(fleet)
    await instance.claimed(await fleet.rows.job(await fleet.rows.module()))
    assert (await fleet.application.admin.post(f"{RUNNER}/drain", json={})).status_code == 200
    gone = await fleet.ask(f"{RUNNER}/destroy", {})
    await until(lambda: fleet.steps(gone), {"drain": "running"})
    await fleet.cancel(gone)
    assert (await fleet.ended(gone)).startswith("CANCELED")
    assert (await fleet.application.admin.get(RUNNER)).json()["is_draining"]


async def test_a_removal_that_the_cloud_refuses_keeps_the_record(fleet: Fleet) -> None:
    await deployed(fleet)
    gone = await fleet.ask(f"{RUNNER}/destroy", {"force": True})
    job = await fleet.process.given(2)
    fleet.process.end(job, "failed", "left: role terracrew-x, because iam:DeleteRole is not allowed")
    assert (await fleet.ended(gone)).startswith("FAILED left: role terracrew-x")
    again = await fleet.ask(f"{RUNNER}/destroy", {})
    fleet.process.end(await fleet.process.given(3))
    assert await fleet.ended(again) == "SUCCEEDED"
