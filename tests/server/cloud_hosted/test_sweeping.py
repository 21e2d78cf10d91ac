"""Only what nobody owns is stopped: never an instance that is connected, or that may have a job."""

import pytest

from terracrew import ids
from terracrew.api.deployments import CloudInstance
from terracrew.server.cloud_hosted import scaling, starting
from terracrew.server.cloud_hosted.sweeping import HELLO_SECONDS
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.history import store as history
from tests.builders.clock import ShiftedClock
from tests.builders.job_rows import JobRows
from tests.server.cloud_hosted.cloud_state import deployment, disconnect, instances, jobs
from tests.server.cloud_hosted.scaling_server import ScalingServer
from tests.server.cloud_hosted.simulated_cloud import SimulatedCloud
from tests.server.deployments.cloud_rows import cloud_runner

pytestmark = pytest.mark.feature("W3.scale")


async def test_a_connected_instance_is_never_stopped(rows: JobRows, scaler: ScalingServer, clock: ShiftedClock) -> None:
    """A cloud that says nonsense, an instance that nobody asked for, and one whose row has ended: all of them are connected."""
    runner_id = await cloud_runner(rows)
    await jobs(rows, 1)
    await scaler.step()
    [own] = scaler.cloud.started
    await rows.instance_of(runner_id, name=own, slots=1)
    stranger = await rows.instance_of(runner_id, name="stranger", slots=1)
    scaler.cloud.tasks["stranger"] = scaler.cloud.tasks[own]
    scaler.cloud.change("stranger", instance="stranger", reference=f"{runner_id}/stranger")
    await scaler.step()
    scaler.cloud.change(own, phase="ended", words="it is gone, says the cloud")
    clock.advance(HELLO_SECONDS * 2)
    await scaler.step()
    assert scaler.cloud.stopped == []
    assert [each.status for each in await instances(rows, runner_id)] == ["running"]
    await disconnect(rows, stranger)
    clock.advance(120)
    await scaler.step()
    assert scaler.cloud.stopped == [], "it may connect again"
    clock.advance(HELLO_SECONDS)
    await scaler.step()
    assert scaler.cloud.stopped == ["stranger"], "nobody owns it, and it costs money"


async def test_an_instance_with_a_job_is_not_stopped_while_it_has_no_connection(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    """It was let go, and lost its connection before it had the answer. So its row has ended, and it was given a job again."""
    runner_id = await cloud_runner(rows)
    [job_id] = await jobs(rows, 1)
    await scaler.step()
    [name] = scaler.cloud.started
    instance = await rows.instance_of(runner_id, name=name, slots=1)
    await instance.has(job_id)
    await end(rows, runner_id)
    await rows.instance_of(runner_id, name=(other := await another(rows, scaler)), slots=1)
    await disconnect(rows, instance)
    for _ in range(2):
        clock.advance(HELLO_SECONDS * 2)
        await scaler.step()
    assert other in scaler.cloud.started
    assert scaler.cloud.stopped == []


async def end(rows: JobRows, runner_id: str) -> None:
    """End the rows of the instances of a runner."""

    async def work(tx: Tx) -> None:
        for each in await store.live_instances(tx, runner_id):
            await store.save_instance(tx, each, each.to("ended", tx.moment, "it left"))

    await rows.db.write(work)


async def another(rows: JobRows, scaler: ScalingServer) -> str:
    """Let another instance start, and return its name."""
    await jobs(rows, 1)
    await scaler.step()
    return scaler.cloud.started[-1]


@pytest.mark.parametrize("why", ["the server has just started", "the database was set back"])
async def test_an_instance_whose_row_was_lost_is_not_stopped_before_it_could_connect(
    rows: JobRows, cloud: SimulatedCloud, scaler: ScalingServer, clock: ShiftedClock, why: str
) -> None:
    runner_id = await cloud_runner(rows)
    await jobs(rows, 2)
    await scaler.step()
    lost, kept = cloud.started
    await rows.instance_of(runner_id, name=kept, slots=4)
    await rows.run("DELETE FROM cloud_instances WHERE name = :name", name=lost)
    clock.advance(HELLO_SECONDS * 2)
    server = ScalingServer(rows.db, cloud) if why == "the server has just started" else scaler
    if server is scaler:
        await rows.db.write(lambda tx: history.start(tx, why, is_set_back=True, set_back_to=None))
    clock.advance(120)
    await server.step()
    assert cloud.requests["watch"] == 1
    assert cloud.stopped == []
    await rows.run("DELETE FROM held_modules")
    await rows.run("DELETE FROM holds")
    clock.advance(HELLO_SECONDS + 1)
    await server.step()
    assert cloud.stopped == [lost], "it had its time"


async def test_an_instance_that_its_cloud_has_forgotten_makes_room_for_another(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    """ECS forgets a task an hour after its end. A server that was away for longer never learns how it ended."""
    runner_id = await cloud_runner(rows, max_instances=1)
    await jobs(rows, 1)
    await scaler.step()
    [first] = scaler.cloud.started
    instance = await rows.instance_of(runner_id, name=first, slots=1)
    await scaler.step()
    await disconnect(rows, instance)
    del scaler.cloud.tasks[first]
    scaler.cloud.is_away = True
    clock.advance(HELLO_SECONDS * 2)
    await scaler.step()
    assert [each.status for each in await instances(rows, runner_id)] == ["running"], "the cloud has not answered"
    scaler.cloud.is_away = False
    for _ in range(2):
        clock.advance(60)
        await scaler.step()
    assert len(scaler.cloud.started) == 2
    assert scaler.cloud.stopped == [], "there is nothing to stop"


async def test_an_instance_that_said_hello_before_its_row_has_no_start_time(
    rows: JobRows, scaler: ScalingServer, clock: ShiftedClock
) -> None:
    runner_id = await cloud_runner(rows)
    await rows.instance_of(runner_id, name="first", slots=1)
    clock.advance(60)

    async def note(tx: Tx) -> None:
        now = tx.moment
        row = CloudInstance(id=ids.new("cin"), runner_id=runner_id, name="first", epoch=0, wanted_at=now)
        await store.insert_instances(tx, [row.to("starting", now)])

    await rows.db.write(note)
    await scaler.step()
    assert [each.status for each in await instances(rows, runner_id)] == ["running"]
    assert (await deployment(rows, runner_id)).start_seconds == []


async def test_a_server_that_starts_looks_once_more_and_again_until_the_cloud_has_answered(
    rows: JobRows, cloud: SimulatedCloud, scaler: ScalingServer, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server before it has ended while an instance was left in the cloud whose row says that it has ended."""
    runner_id = await cloud_runner(rows)
    await rows.db.write(lambda tx: starting.wake(tx, runner_id))
    await scaler.step()
    [name] = cloud.started
    await end(rows, runner_id)
    clock.advance(HELLO_SECONDS + 1)
    monkeypatch.setattr(scaling, "LAST_LOOK_SECONDS", 0.0)
    next_one = ScalingServer(rows.db, cloud)
    cloud.is_away = True
    await next_one.step()
    assert (cloud.requests["watch"], cloud.stopped) == (1, [])
    cloud.is_away = False
    await next_one.step()
    assert cloud.stopped == [name]
    await next_one.step()
    assert cloud.requests["watch"] == 2, "a runner that sleeps is not looked at again"
