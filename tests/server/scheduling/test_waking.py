"""What people are told about a job whose cloud-hosted runner sleeps, starts, or is not started by its cloud."""

from datetime import timedelta

import msgspec
import pytest

from terracrew import ids
from terracrew.api.deployments import CloudInstance
from terracrew.api.job_views import Reason
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.jobs import store as job_store
from terracrew.server.scheduling import explain
from tests.builders.job_rows import JobRows
from tests.server.deployments.cloud_rows import cloud_runner

pytestmark = pytest.mark.feature("W3.scale")


async def _why(rows: JobRows, job_id: str) -> Reason:
    async def read(tx: Tx) -> Reason:
        job = await job_store.get(tx, job_id)
        return (await explain.why_each(tx, [job], Registry(), with_turn=True))[job_id]

    return await rows.db.read(read)


async def _want(rows: JobRows, runner_id: str) -> CloudInstance:
    async def work(tx: Tx) -> CloudInstance:
        at = tx.moment - timedelta(seconds=12)
        wanted = CloudInstance(id=ids.new("cin"), runner_id=runner_id, name="tc-1", epoch=1, wanted_at=at)
        await store.insert_instances(tx, [wanted])
        return wanted

    return await rows.db.write(work)


async def test_the_reason_says_what_the_start_takes_and_what_the_cloud_is_doing(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows)
    job_id = await rows.job(await rows.module())
    assert (await _why(rows, job_id)).text == "starting a cloud-hosted runner, which is asleep"

    async def learn(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        await store.save(tx, held, held.started_in(40.0))

    await rows.db.write(learn)
    wanted = await _want(rows, runner_id)
    starting = msgspec.structs.replace(wanted, status="starting", words="pulling the image")
    await rows.db.write(lambda tx: store.save_instance(tx, wanted, starting))
    found = await _why(rows, job_id)
    assert (found.code, found.text) == ("waking", "starting a cloud-hosted runner: about 40 s, pulling the image")
    assert found.link == f"/dashboard/runners/{runner_id}"
    assert found.since == wanted.wanted_at


async def test_a_refusal_is_told_in_the_words_of_the_cloud_with_the_time_of_the_next_try(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows)
    job_id = await rows.job(await rows.module())

    async def refuse(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        now = tx.moment
        refused = held.refused("quota", "You have reached the limit of 6 vCPU", now, now + timedelta(minutes=2))
        await store.save(tx, held, refused)

    await rows.db.write(refuse)
    found = await _why(rows, job_id)
    assert found.code == "wake_refused"
    assert f"the runner {runner_id}, and is asked again: You have reached the limit of 6 vCPU" in found.text
    assert found.since is not None
    assert found.until == found.since + timedelta(minutes=2)


async def test_a_job_does_not_leave_a_sleeping_runner_for_a_farther_one(rows: JobRows) -> None:
    """Otherwise the jobs of a group with a cloud-hosted runner would run on the server's own runner whenever it sleeps."""
    group = await rows.group("team")
    runner_id = await cloud_runner(rows, group, "team")
    far = await rows.runner()
    job_id = await rows.job(await rows.module("team/net", group))
    assert (await _why(rows, job_id)).code == "waking"
    assert await far.claim(job_id) is None

    async def disable(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        await store.save(tx, held, msgspec.structs.replace(held, status="failed"))

    await rows.db.write(disable)
    assert (await _why(rows, job_id)).code == "offered"
    assert await far.claim(job_id) is not None


async def test_a_full_runner_that_starts_a_further_instance_says_so(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows)
    instance = await rows.instance_of(runner_id, slots=1)
    await instance.has(await rows.job(await rows.module()))
    job_id = await rows.job(await rows.module())
    assert (await _why(rows, job_id)).code == "all_full"
    await _want(rows, runner_id)
    assert (await _why(rows, job_id)).code == "waking"
