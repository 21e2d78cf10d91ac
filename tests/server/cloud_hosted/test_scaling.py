"""Instances are started for jobs that need them, once, and followed until they have ended; a sleeping runner costs nothing."""

import asyncio
import time
from datetime import timedelta

import pytest

from terracrew.clouds.contract import CloudRefused
from terracrew.protocol.dispatcher_choice import NO_CHOICE
from terracrew.server.cloud_hosted import starting
from terracrew.server.cloud_hosted.sweeping import HELLO_SECONDS
from terracrew.server.connections.withheld import StartPauses
from terracrew.server.db import open_database
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows, change_deployments, change_groups, change_modules, change_runners
from tests.server.cloud_hosted.cloud_state import deployment, disconnect, instances, jobs
from tests.server.cloud_hosted.scaling_server import ScalingServer
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud, refused
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.scheduling.recorded_claims import connect

pytestmark = pytest.mark.feature("W3.scale")


async def test_a_job_wakes_one_instance_and_a_second_look_wakes_no_other(rows: JobRows, scaler: ScalingServer) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    await scaler.step()
    [started] = await instances(rows, runner_id)
    assert (started.status, started.name) == ("starting", scaler.cloud.started[0])
    await scaler.step()
    await scaler.step()
    assert len(scaler.cloud.started) == 1
    assert scaler.cloud.requests == {"start": 1}, "a request that was just made is not followed by a question"


async def test_a_sleeping_runner_needs_no_request_at_all(rows: JobRows, scaler: ScalingServer) -> None:
    for _ in range(3):
        await cloud_runner(rows)
    for _ in range(3):
        await scaler.step()
    assert not scaler.cloud.requests


async def test_as_many_instances_are_started_as_jobs_need_and_people_allow(
    rows: JobRows, scaler: ScalingServer
) -> None:
    runner_id = await cloud_runner(rows, capacity=2, max_instances=3)
    await jobs(rows, 3)
    await scaler.step()
    assert len(scaler.cloud.started) == 2
    await jobs(rows, 20)
    await scaler.step()
    assert len(scaler.cloud.started) == 3
    names = [each.name.rpartition("-")[0] for each in await instances(rows, runner_id)]
    assert names == [f"tc-{runner_id[-12:]}-{number}" for number in ("1-1", "1-2", "2-1")]


async def test_a_database_that_was_set_back_gets_no_instance_that_has_ended_long_ago(
    rows: JobRows, scaler: ScalingServer
) -> None:
    """It makes the same decision again. A cloud answers the same name with what it has started before."""
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    await scaler.step()
    [first] = scaler.cloud.started
    scaler.cloud.change(first, phase="ended")
    await rows.run("DELETE FROM cloud_instances WHERE runner_id = :id", id=runner_id)
    await change_deployments(rows.db, runner_id, epoch=0)
    await scaler.step()
    assert len(scaler.cloud.started) == 2


async def test_jobs_that_nobody_could_start_wake_nobody(rows: JobRows, scaler: ScalingServer) -> None:
    """A capped group, a module with another job before it, an approval, a tag that the runner lacks, and the name of an instance."""
    await cloud_runner(rows, max_instances=50)
    capped = await rows.group("capped")
    await change_groups(rows.db, capped, max_running_jobs=1)
    for name in ("a", "b", "c"):
        await rows.job(await rows.module(f"capped/{name}", capped))
    busy = await rows.module()
    for _ in range(4):
        await rows.job(busy)
    await change_modules(rows.db, tagged := await rows.module(), tags=["gpu"])
    await change_modules(rows.db, pinned := await rows.module(), runner_instance_name="one")
    await rows.job(tagged)
    await rows.job(pinned)
    await rows.job(await rows.module(), "AWAITING_APPROVAL", "APPLY")
    await scaler.step()
    assert len(scaler.cloud.started) == 2, "one job of the capped group and one of the module"


async def test_a_free_slot_of_the_same_tier_serves_the_job(rows: JobRows, scaler: ScalingServer) -> None:
    await cloud_runner(rows)
    await rows.runner(slots=2)
    await jobs(rows, 2)
    await scaler.step()
    assert not scaler.cloud.started
    await jobs(rows, 1)
    await scaler.step()
    assert len(scaler.cloud.started) == 1


@pytest.mark.parametrize("is_choice", [True, False])
async def test_a_free_slot_of_an_instance_that_could_not_start_the_job_does_not_serve_it(
    rows: JobRows, scaler: ScalingServer, is_choice: bool
) -> None:
    """The instance paused the job for minutes, and the sleeping runner beside it was never started."""
    runner_id = await cloud_runner(rows)
    session, socket = connect(scaler.registry, await rows.runner(slots=2), slots=2)
    [job] = await jobs(rows, 1)
    session.pauses.add(NO_CHOICE if is_choice else job, 600.0, time.monotonic())
    await scaler.step()
    await scaler.step()
    assert socket.claims == []
    assert len(await instances(rows, runner_id)) == 1
    session.pauses = StartPauses()
    await jobs(rows, 1)
    await scaler.step()
    assert len(await instances(rows, runner_id)) == 1


async def test_a_job_that_was_claimed_since_it_was_counted_wakes_nobody(rows: JobRows, scaler: ScalingServer) -> None:
    """Its slot is taken, and it would count as a job that waits, too, if another server or the next moment has given it to somebody."""
    runner_id = await cloud_runner(rows)
    instance = await rows.instance_of(runner_id, name="one", slots=1)
    [claimed] = await jobs(rows, 1)
    await scaler.scheduler.sweep()
    assert [each.jobs for each in scaler.scheduler.demand()] == [1]
    await instance.has(claimed)
    scaler.scaling.note_changes()
    await scaler.scaling.step()
    await scaler.tasks.join()
    assert scaler.cloud.started == []
    await jobs(rows, 2)
    await scaler.step()
    assert len(scaler.cloud.started) == 2


async def test_of_several_runners_that_sleep_one_is_woken(rows: JobRows, scaler: ScalingServer) -> None:
    first, second = sorted([await cloud_runner(rows, max_instances=1), await cloud_runner(rows, max_instances=1)])
    await jobs(rows, 1)
    await scaler.step()
    assert (len(await instances(rows, first)), len(await instances(rows, second))) == (1, 0)
    await jobs(rows, 1)
    await scaler.step()
    assert (len(await instances(rows, first)), len(await instances(rows, second))) == (1, 1)


async def test_the_wanted_minimum_runs_without_jobs(rows: JobRows, scaler: ScalingServer) -> None:
    runner_id = await cloud_runner(rows, min_instances=2)
    await scaler.step()
    assert len(await instances(rows, runner_id)) == 2
    await change_runners(rows.db, idle := await cloud_runner(rows, min_instances=1), is_disabled=True)
    await scaler.step()
    assert await instances(rows, idle) == []


async def test_an_instance_whose_engine_does_not_fit_is_not_woken_again_and_again(
    rows: JobRows, scaler: ScalingServer
) -> None:
    runner_id = await cloud_runner(rows)
    await disconnect(rows, await rows.instance_of(runner_id, name="earlier"))
    module_id = await rows.module()
    await change_modules(rows.db, module_id, engine="pulumi")
    await rows.job(module_id)
    await scaler.step()
    assert not scaler.cloud.started


async def test_a_request_without_an_answer_is_repeated_with_the_same_name(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    scaler.cloud.loses_answers = True
    await scaler.step()
    assert [each.status for each in await instances(rows, runner_id)] == ["wanted"]
    scaler.cloud.loses_answers = False
    clock.advance(starting.REPEAT_SECONDS + 1)
    await scaler.step()
    assert [each.status for each in await instances(rows, runner_id)] == ["starting"]
    assert len(scaler.cloud.started) == 1


async def test_a_request_is_not_repeated_for_a_runner_that_takes_no_jobs(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    scaler.cloud.is_away = True
    await scaler.step()
    scaler.cloud.is_away = False
    await change_runners(rows.db, runner_id, is_disabled=True)
    clock.advance(starting.REPEAT_SECONDS + 1)
    await scaler.step()
    assert scaler.cloud.started == []
    await change_runners(rows.db, runner_id, is_disabled=False)
    await scaler.step()
    assert len(scaler.cloud.started) == 1


async def test_a_cloud_that_is_away_for_a_minute_loses_nothing(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 3)
    scaler.cloud.is_away = True
    for _ in range(30):
        await scaler.step()
        clock.advance(2.0)
    assert scaler.cloud.requests["start"] < 6
    scaler.cloud.is_away = False
    clock.advance(starting.REPEAT_SECONDS)
    await scaler.step()
    assert [each.status for each in await instances(rows, runner_id)] == ["starting"] * 3
    assert len(scaler.cloud.started) == 3


@pytest.mark.parametrize("code", ["quota", "capacity", "addresses", "throttled", "not_permitted"])
async def test_a_refusal_is_respected_and_tried_again_later_and_later(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock, code: str
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 2)
    scaler.cloud.refusal = refused(code)
    waits: list[float] = []
    for count in range(1, 4):
        await scaler.step()
        found = await deployment(rows, runner_id)
        assert (found.refusals, found.refusal_words) == (count, f"the cloud says {code}")
        assert scaler.cloud.requests["start"] == count
        assert found.retry_at is not None
        assert found.refused_at is not None
        waits.append((found.retry_at - found.refused_at).total_seconds())
        await scaler.step()
        assert scaler.cloud.requests["start"] == count, "it was not asked again at once"
        clock.advance(waits[-1] + 0.1)
        await scaler.step()  # the back-off ends, and wakes the scheduler
    assert waits[0] < waits[1] < waits[2]
    scaler.cloud.refusal = None
    await scaler.step()
    assert len(scaler.cloud.started) == 2
    ended = [each for each in await instances(rows, runner_id) if each.status == "ended"]
    assert {each.end_reason for each in ended} == {f"the cloud says {code}"}


async def test_an_identity_that_cannot_sign_in_is_a_refusal_too(rows: JobRows, scaler: ScalingServer) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    scaler.cloud.error = CloudRefused("the role cannot be assumed: wrong external id")
    await scaler.step()
    found = await deployment(rows, runner_id)
    assert (found.refusals, found.refusal_words) == (1, "the role cannot be assumed: wrong external id")
    assert [each.status for each in await instances(rows, runner_id)] == ["ended"]


async def test_the_words_of_the_cloud_are_shown_and_the_hello_ends_the_start(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    await scaler.step()
    clock.advance(10)
    await scaler.step()
    assert [each.words for each in await instances(rows, runner_id)] == ["pulling the image"]
    clock.advance(20)
    await rows.instance_of(runner_id, name=scaler.cloud.started[0], slots=1)
    await scaler.step()
    [found] = await instances(rows, runner_id)
    assert found.status == "running"
    assert 29 < (await deployment(rows, runner_id)).typical_start_seconds < 35
    asked = scaler.cloud.requests["watch"]
    for _ in range(10):
        clock.advance(5)
        await scaler.step()
    assert scaler.cloud.requests["watch"] <= asked + 1, "one that runs is watched once a minute"


async def test_an_instance_that_never_says_hello_is_stopped_and_counts_as_a_refusal(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    await scaler.step()
    clock.advance(HELLO_SECONDS + 5)
    await scaler.step()
    assert scaler.cloud.stopped == scaler.cloud.started
    [found] = await instances(rows, runner_id)
    assert (found.status, found.end_reason) == ("ended", "it did not say hello in 10 minutes (pulling the image)")
    after = await deployment(rows, runner_id)
    assert (after.refusals, after.refusal_code) == (1, "start")
    entry = await rows.db.read(lambda tx: tx.one("SELECT details FROM audit WHERE action = 'runner.stop_instance'"))
    assert entry is not None
    await scaler.step()
    assert len(scaler.cloud.started) == 1, "a broken image does not start instances for ever"


async def test_an_instance_that_dies_at_its_start_is_told_with_its_last_lines(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    await scaler.step()
    lines = ["starting", "no such image"]
    scaler.cloud.change(scaler.cloud.started[0], phase="ended", words="it exited", exit_code=3, last_lines=lines)
    clock.advance(10)
    await scaler.step()
    found = await deployment(rows, runner_id)
    words = "it ended before it said hello: it exited (exit code 3)\nstarting\nno such image"
    assert (found.refusal_code, found.refusal_words) == ("start", words)
    assert scaler.cloud.stopped == []


async def test_two_servers_of_one_database_start_one_set(
    rows: JobRows, cloud: SimulatedCloud, database_url: str
) -> None:
    """SQLite has one server, whose steps may still overlap."""
    runner_id = await cloud_runner(rows, max_instances=40, capacity=2)
    other = await open_database(database_url) if rows.db.kind == "postgres" else rows.db
    servers = [ScalingServer(each, cloud) for each in (rows.db, other)]
    expected = 0
    for count in (1, 7, 3, 12):
        await jobs(rows, count)
        expected += count
        for _ in range(3):
            await asyncio.gather(*(server.step() for server in servers))
        assert len(cloud.started) == len(set(cloud.started)) == -(-expected // 2)
    assert {each.status for each in await instances(rows, runner_id)} == {"starting"}
    if other is not rows.db:
        await other.close()


async def test_from_the_commit_of_a_job_to_the_request_takes_less_than_a_second(
    rows: JobRows, scaler: ScalingServer
) -> None:
    await cloud_runner(rows)
    loops = [asyncio.create_task(scaler.scheduler.run()), asyncio.create_task(scaler.scaling.run())]
    try:
        async with asyncio.timeout(10):
            while not scaler.scaling.has_any or not scaler.scheduler.freshness.is_watching:
                await asyncio.sleep(0.01)
        job_id = await rows.job(await rows.module())
        begun = asyncio.get_running_loop().time()
        rows.db.wake_here("queue", job_id)
        async with asyncio.timeout(10):
            while not scaler.cloud.started:
                await asyncio.sleep(0.005)
        assert asyncio.get_running_loop().time() - begun < 1.0
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)


async def test_the_back_off_of_a_runner_ends_by_itself(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)

    async def refuse(tx: Tx) -> None:
        held = await store.hold(tx, runner_id)
        assert held is not None
        now = tx.moment
        await store.save(tx, held, held.refused("quota", "no", now, now + timedelta(seconds=30)))

    await rows.db.write(refuse)
    await jobs(rows, 1)
    await scaler.step()
    assert not scaler.cloud.requests
    clock.advance(31)
    await scaler.step()
    await scaler.step()
    assert len(scaler.cloud.started) == 1
