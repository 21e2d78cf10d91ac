"""What an instance could not start a moment ago is not claimed for it, and holds up nothing else."""

import time

import msgspec
import pytest

from terracrew.protocol.dispatcher_choice import NO_CHOICE, AllowedChoices, DispatcherChoice, OfferedDispatcher
from terracrew.server.connections import withheld
from terracrew.server.connections.withheld import StartPauses
from terracrew.server.db.seam import Database
from terracrew.server.engines.model import AvailableEngines
from tests.builders.job_rows import JobRows, change_jobs
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("S3.offers")
IMAGE = "registry.example/deleted:1"


async def test_a_job_that_could_not_be_started_does_not_hold_up_the_next_one(database: Database) -> None:
    """Symptom: each start that failed stopped all claims of its runner for five seconds."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    one, another = [await rows.runner(slots=1) for _ in range(2)]
    session, socket = recorder.connect(one, slots=1)
    broken, sound = [await rows.job(await rows.module()) for _ in range(2)]
    session.pauses.add(broken, 60.0, time.monotonic())
    await recorder.scheduler.sweep()
    assert socket.claims == [sound]
    _, others = recorder.connect(another, slots=1)
    await recorder.scheduler.sweep()
    assert others.claims == [broken], "another instance may try it at once"


async def test_a_job_is_claimed_again_after_its_pause(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    job = await rows.job(await rows.module())
    session.pauses.add(job, 60.0, time.monotonic() - 30.0)
    await recorder.scheduler.sweep()
    assert socket.claims == []
    session.pauses.add(job, 60.0, time.monotonic() - 60.0)
    await recorder.scheduler.sweep()
    assert socket.claims == [job]


@pytest.mark.feature("W3.scale")
@pytest.mark.parametrize("is_paused", [True, False])
async def test_a_job_that_no_instance_can_start_at_the_moment_counts_as_one_that_waits(
    database: Database, is_paused: bool
) -> None:
    """It was in no line until the next sweep, so no cloud-hosted runner was started for it."""
    recorder = ClaimRecorder(await JobRows.make(database))
    rows, scheduler = recorder.rows, recorder.scheduler
    session, socket = recorder.connect(await rows.runner(slots=1), slots=1)
    await cloud_runner(rows)
    job = await rows.job(await rows.module())
    await scheduler.sweep()
    assert socket.claims == [job]
    if is_paused:
        session.pauses.add(job, 600.0, time.monotonic())
    scheduler.unclaimed(job)
    await scheduler.step({("queue", job)})
    assert socket.claims == [job]
    [demand] = scheduler.demand()
    assert (demand.job_ids, len(demand.paused)) == ((job,), is_paused)
    await change_jobs(database, job, status="AWAITING_APPROVAL")
    await scheduler.step({("queue", job)})
    assert scheduler.demand() == []


async def test_jobs_that_ask_for_the_same_wait_together_and_others_do_not(database: Database) -> None:
    recorder = ClaimRecorder(await JobRows.make(database))
    rows = recorder.rows
    session, socket = recorder.connect(await rows.runner())
    allowed = AllowedChoices(["registry.example/*"])
    engines = {"tofu": ["1"]}
    offers = [
        OfferedDispatcher("default", "local", engines=engines),
        OfferedDispatcher("big", "docker", allowed, engines),
    ]
    session.engines = AvailableEngines((("tofu", ("1",)),), dispatchers=msgspec.json.encode(offers).decode())
    asking, plain = await rows.module(), await rows.module()
    choice = DispatcherChoice("docker", IMAGE)
    wanting, other = await rows.job(asking), await rows.job(plain)
    encoded = msgspec.json.encode(choice).decode()
    await change_jobs(rows.db, wanting, dispatcher=encoded)
    session.pauses.add(msgspec.structs.replace(choice, name="big"), 60.0, time.monotonic())
    await recorder.scheduler.sweep()
    assert socket.claims == [other], "the grant had the name of the dispatcher that its type stands for"
    session.pauses = StartPauses()
    session.pauses.add(NO_CHOICE, 60.0, time.monotonic())
    await recorder.scheduler.sweep()
    assert socket.claims == [other, wanting]


def test_a_runner_cannot_pause_for_ever_or_fill_the_memory() -> None:
    pauses = StartPauses()
    pauses.add("job_1", float("inf"), 0.0)
    assert pauses.has("job_1", withheld.MAX_PAUSE_SECONDS - 1)
    assert not pauses.has("job_1", withheld.MAX_PAUSE_SECONDS)
    for seconds in (0.0, -1.0, float("nan")):
        pauses.add("job_2", seconds, 0.0)
    assert not pauses.has("job_2", 0.0)
    for number in range(5_000):
        pauses.add(f"job_{number}", 60.0, 1_000.0)
    assert sum(pauses.has(f"job_{number}", 1_000.0) for number in range(5_000)) == 1_000
