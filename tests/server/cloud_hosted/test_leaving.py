"""An idle instance is let go only if it has no job, and is given none after that, whatever else happens at the same moment."""

import asyncio
import random

import pytest

from terracrew.protocol.messages import Heartbeat
from terracrew.server.cloud_hosted import leaving, starting
from terracrew.server.cloud_hosted.leaving import Idle
from terracrew.server.connections import store as connections
from terracrew.server.connections.store import Connecting, PlacedProcess
from terracrew.server.db.seam import Row, Tx
from terracrew.server.deployments import reads, store
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, delivery
from tests.builders.job_rows import Instance, JobRows
from tests.server.deployments.cloud_rows import cloud_runner

pytestmark = pytest.mark.feature("W3.scale")
ROUNDS = 250


async def leave(
    rows: JobRows, instance: Instance, name: str = "one", epoch: int = 1, idle_seconds: float = 1000.0
) -> str:
    idle = Idle(instance.runner_id, instance.id, name, epoch, idle_seconds)
    return await rows.db.write(lambda tx: leaving.leave(tx, idle))


async def claim(rows: JobRows, instance: Instance, job_id: str, epoch: int = 1) -> bool:
    claimant = Claimant(job_id, 1, instance.runner_id, instance.id, epoch)
    return await rows.claim(ClaimRequest(claimant, claims.make_credentials(), may_leave=True)) is not None


async def reconnect(rows: JobRows, instance: Instance) -> int:
    """Let the same process connect again, and return the epoch of its new connection."""
    process = Connecting(
        runner_id=instance.runner_id,
        name="one",
        key_sha256="",
        server_id=None,
        version="0",
        capacity=4,
        engines={"tofu": "1.12.6"},
        engine_versions={},
        installable_engines=[],
        dispatchers=[],
        is_draining=False,
        is_disk_full=False,
        drain_reason="",
        ends_at=None,
        isolation="",
        machine="",
        resume_sha256="",
    )
    epoch = (await state(rows, instance))["epoch"]
    placed = PlacedProcess(process, instance.id, epoch, None, "")
    return (await rows.db.write(lambda tx: connections.connect(tx, [placed])))[instance.id]


async def state(rows: JobRows, instance: Instance) -> Row:
    sql = """SELECT instances.epoch, instances.is_leaving, instances.is_draining,
        (SELECT count(*) FROM jobs WHERE jobs.instance_id = instances.id AND jobs.status = 'CLAIMED') AS jobs
        FROM instances WHERE instances.id = :id"""
    found = await rows.db.read(lambda tx: tx.one(sql, id=instance.id))
    assert found is not None
    return found


async def test_no_instance_that_was_let_go_has_a_job(rows: JobRows) -> None:
    """Claims of offers, claims ahead, requests to leave and new connections meet in random orders."""
    rng = random.Random(7)
    outcomes = {"left": 0, "stayed": 0}
    for _ in range(ROUNDS):
        instance = await rows.runner(slots=2)
        jobs = [await rows.job(await rows.module()) for _ in range(2)]
        work = [leave(rows, instance), *(claim(rows, instance, job_id) for job_id in jobs[: rng.randint(1, 2)])]
        if rng.random() < 0.2:
            work += [reconnect(rows, instance), *(claim(rows, instance, job_id, epoch=2) for job_id in jobs[1:])]
        rng.shuffle(work)
        answers = await asyncio.gather(*(_later(rng.randint(0, 3), each) for each in work))
        is_granted = "" in answers
        found = await state(rows, instance)
        if is_granted and found["epoch"] == 1:
            assert (found["jobs"], bool(found["is_leaving"])) == (0, True)
            assert not await claim(rows, instance, jobs[0])
        outcomes["left" if is_granted else "stayed"] += 1
        await rows.run("DELETE FROM assignments WHERE runner_id = :id", id=instance.runner_id)
    assert min(outcomes.values()) > ROUNDS / 10, f"it is no test if one side always wins: {outcomes}"


async def _later(turns: int, work: object) -> object:
    for _ in range(turns):
        await asyncio.sleep(0)
    return await work  # type: ignore[misc]


async def test_a_busy_instance_has_to_stay(rows: JobRows) -> None:
    instance = await rows.runner(slots=2)
    await instance.has(await rows.job(await rows.module()))
    assert await leave(rows, instance) == "it has a job"
    assert not (await state(rows, instance))["is_draining"]


async def test_a_request_of_an_earlier_connection_is_refused(rows: JobRows) -> None:
    instance = await rows.runner()
    assert "newer connection" in await leave(rows, instance, epoch=0)


async def test_an_instance_that_was_let_go_stays_drained_whatever_it_reports_until_it_connects_again(
    rows: JobRows,
) -> None:
    instance = await rows.runner()
    assert await leave(rows, instance) == ""
    await rows.db.write(lambda tx: report(tx, instance))
    assert (await state(rows, instance))["is_draining"]
    job_id = await rows.job(await rows.module())
    assert not await claim(rows, instance, job_id)
    assert await reconnect(rows, instance) == 2
    assert await claim(rows, instance, job_id, epoch=2), "the process has not had the answer, and takes jobs again"


async def report(tx: Tx, instance: Instance) -> None:
    await connections.set_reported(tx, instance.runner_id, instance.id, 1, Heartbeat("0", False, []))


async def started(rows: JobRows, runner_id: str, count: int) -> dict[str, Instance]:
    """Let the cloud start instances, and let them say hello."""

    async def want(tx: Tx) -> list[str]:
        held = await store.hold(tx, runner_id)
        assert held is not None
        return [each.name for each in await starting.want(tx, held, count)]

    return {name: await rows.instance_of(runner_id, name=name, slots=1) for name in await rows.db.write(want)}


async def test_the_last_free_instance_stays_for_the_whole_idle_time_and_no_other(rows: JobRows) -> None:
    instances = await started(rows, await cloud_runner(rows, idle_seconds=300), 3)
    early = await asyncio.gather(*(leave(rows, each, name, idle_seconds=30.0) for name, each in instances.items()))
    kept = "it is the last one with a free slot, and is kept for 5 m 00 s after its last job"
    assert sorted(early) == ["", "", kept]
    name = list(instances)[early.index(kept)]
    assert await leave(rows, instances[name], name, idle_seconds=299.0) == kept
    assert await leave(rows, instances[name], name, idle_seconds=300.0) == ""


async def test_the_wanted_minimum_stays(rows: JobRows) -> None:
    runner_id = await cloud_runner(rows, min_instances=1, max_instances=2)
    instances = await started(rows, runner_id, 2)
    answers = await asyncio.gather(*(leave(rows, instance, name) for name, instance in instances.items()))
    assert sorted(answers) == ["", "1 instance of this runner is always wanted"]
    live = (await rows.db.read(lambda tx: reads.live_of(tx, [runner_id])))[runner_id]
    assert sorted(each.status for each in live) == ["leaving", "wanted"]


async def test_people_are_told_when_the_last_instance_sleeps_unless_a_job_comes(
    rows: JobRows, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows, idle_seconds=300)
    assert await rows.db.read(lambda tx: reads.idle_since(tx, runner_id)) is None
    [(name, instance)] = (await started(rows, runner_id, 1)).items()
    hello_at = await rows.db.read(lambda tx: reads.idle_since(tx, runner_id))
    assert hello_at is not None
    clock.advance(60)
    job_id = await rows.job(await rows.module())
    ref = await instance.start(job_id)
    assert await rows.db.read(lambda tx: reads.idle_since(tx, runner_id)) is None, "it has a job"
    await rows.take(delivery(ref, 2, DONE))
    after = await rows.db.read(lambda tx: reads.idle_since(tx, runner_id))
    assert after is not None
    assert after >= hello_at + 60
    assert await leave(rows, instance, name) == ""
    assert await rows.db.read(lambda tx: reads.idle_since(tx, runner_id)) is None
