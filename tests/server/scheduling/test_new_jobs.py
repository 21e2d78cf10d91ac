"""A new job is claimed first by the server that created it, without a read, and no other server claims it in vain."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from terracrew.server.db import Database
from terracrew.server.db.open import open_database
from terracrew.server.scheduling import reads, scheduler
from terracrew.server.scheduling.queue import Waiting
from tests.builders.job_rows import JobRows, change_jobs, change_modules
from tests.server.hub.hub_clients import on_postgres
from tests.server.scheduling.recorded_claims import ClaimRecorder

pytestmark = pytest.mark.feature("S3.offers")


async def new(rows: JobRows, priority: int = 0) -> Waiting:
    """A job that was just committed."""
    job = await rows.job(await rows.module())
    await change_jobs(rows.db, job, priority=priority)
    (found,), _ = await rows.db.read(lambda tx: reads.queued(tx, [job]))
    return found


async def test_it_is_claimed_at_once(rows: JobRows) -> None:
    recorder = ClaimRecorder(rows)
    _, socket = recorder.connect(await rows.runner())
    with recorder.scheduler.freshness.watching(rows.db):
        await recorder.scheduler.sweep()
        job = await new(rows)
        recorder.scheduler.enqueue([job])
        assert socket.claims == [job.id], "nothing was awaited, so nothing was read"


async def test_it_enters_its_line_together_with_what_is_being_read(rows: JobRows) -> None:
    recorder = ClaimRecorder(rows)
    scheduler = recorder.scheduler
    _, socket = recorder.connect(await rows.runner(slots=1), slots=1)
    with scheduler.freshness.watching(rows.db):
        await scheduler.sweep()
        first, second = await new(rows, priority=5), await new(rows)
        with scheduler.freshness.reading():
            scheduler.enqueue([second])
            assert socket.claims == []
            await scheduler.step({("queue", first.id)})
        assert socket.claims == [first.id], "the one with the higher priority has the slot"


async def test_one_that_another_server_gave_away_before_it_was_in_its_line_is_not_claimed(rows: JobRows) -> None:
    recorder, elsewhere = ClaimRecorder(rows), await rows.runner()
    scheduler = recorder.scheduler
    _, socket = recorder.connect(await rows.runner())
    with scheduler.freshness.watching(rows.db):
        await scheduler.sweep()
        job = await new(rows)
        with scheduler.freshness.reading():
            scheduler.enqueue([job])
            await elsewhere.has(job.id)
            await scheduler.step({("queue", job.id)})
        await scheduler.step(set())
        assert socket.claims == []


async def test_a_burst_while_the_queue_is_read_leaves_nothing_to_read(rows: JobRows) -> None:
    """Each job that came during a read was read, too, and others came then: a busy server never claimed one with its creation again."""
    recorder = ClaimRecorder(rows)
    scheduler = recorder.scheduler
    recorder.connect(await rows.runner(slots=100), slots=100)
    with scheduler.freshness.watching(rows.db) as wakeups:
        sweeping = asyncio.create_task(scheduler.sweep())
        await asyncio.sleep(0)
        jobs = [await new(rows) for _ in range(3)]
        scheduler.enqueue(jobs)
        await sweeping
        assert scheduler.freshness.is_current
        assert await wakeups.get(timeout=0) == set()
    assert all(job.id in next(iter(recorder.registry.runners.values())).reserved for job in jobs)


# ---- two servers on one PostgreSQL


@pytest.fixture
async def other(database_url: str, database: Database) -> AsyncIterator[Database]:
    """The database as another server sees it."""
    db = await open_database(database_url)
    yield db
    await db.close()


@on_postgres
async def test_a_job_whose_module_changed_while_it_was_created_goes_to_the_new_runner(database: Database) -> None:
    """Symptom: the change was handled before the job was known, so the job waited for the old runner forever."""
    rows = await JobRows.make(database)
    recorder = ClaimRecorder(rows)
    old, now = await rows.runner(), await rows.runner()
    _, socket = recorder.connect(now)
    job = await new(rows)
    stale = msgspec.structs.replace(job, runner_id=old.runner_id)
    await change_modules(rows.db, job.module_id, runner_id=now.runner_id)
    with recorder.scheduler.freshness.watching(database):
        await recorder.scheduler.step({("tree", job.module_id)})
        recorder.scheduler.enqueue([stale])
        assert socket.claims == []
        await recorder.scheduler.sweep()
    assert socket.claims == [job.id]


async def test_what_was_read_replaces_what_a_transaction_said(rows: JobRows) -> None:
    recorder = ClaimRecorder(rows)
    instance, job = await rows.runner(), await new(rows)
    with recorder.scheduler.freshness.watching(rows.db):
        await recorder.scheduler.sweep()
        await change_jobs(rows.db, job.id, priority=8)
        with recorder.scheduler.freshness.reading():
            recorder.scheduler.enqueue([job])
            await recorder.scheduler.step({("queue", job.id)})
        later = await new(rows, priority=5)
        recorder.scheduler.enqueue([later])
        session, socket = recorder.connect(instance)
        recorder.scheduler.serve(session)
    assert socket.claims == [job.id, later.id]


async def test_very_many_new_jobs_let_other_work_run_in_between(rows: JobRows) -> None:
    """Symptom: the event loop stood still for seconds while the jobs of one commit entered their lines."""
    recorder = ClaimRecorder(rows)
    job = await new(rows)
    many = [
        msgspec.structs.replace(job, id=f"job_{number}", module_id=f"mod_{number}")
        for number in range(10 * scheduler.MAX_JOBS_AT_ONCE)
    ]
    with recorder.scheduler.freshness.watching(rows.db):
        recorder.scheduler.enqueue(many)
        assert recorder.scheduler.reserve([job]) == {}, "a later job must not overtake them"
        turns = 0
        while recorder.scheduler.is_admitting:
            turns += 1
            await asyncio.sleep(0)
    assert turns == 9


@on_postgres
async def test_the_other_server_is_told_of_one_only_when_its_claim_here_was_refused(
    database: Database, other: Database
) -> None:
    """All servers claimed every new job for their own runners, and all of these claims but one were refused."""
    rows = await JobRows.make(database)
    recorder = ClaimRecorder(rows)
    recorder.connect(await rows.runner(slots=9), slots=9)
    with recorder.scheduler.freshness.watching(database), other.listen("queue") as heard:
        await recorder.scheduler.sweep()
        claimed, refused = await new(rows), await new(rows)
        recorder.scheduler.enqueue([claimed, refused])
        recorder.scheduler.claimed(claimed.id)
        assert await heard.get(timeout=0.2) == set()
        recorder.scheduler.unclaimed(refused.id)
        assert await heard.get(timeout=10) == {("queue", refused.id)}


@on_postgres
@pytest.mark.parametrize("is_running", [True, False])
async def test_the_other_server_is_told_at_once_if_nobody_here_can_take_it(
    database: Database, other: Database, is_running: bool
) -> None:
    """Also if the scheduler of this server does not run, because it has just lost the database."""
    rows = await JobRows.make(database)
    here, there = ClaimRecorder(rows), ClaimRecorder(JobRows(other))
    instance = await rows.runner()
    _, socket = there.connect(instance)
    await there.scheduler.sweep()
    with other.listen("queue") as heard:
        job = await new(rows)
        if is_running:
            with here.scheduler.freshness.watching(database):
                await here.scheduler.sweep()
                here.scheduler.enqueue([job])
        else:
            here.connect(instance)
            here.scheduler.enqueue([job])
        await there.scheduler.step(await heard.get(timeout=10))
    assert socket.claims == [job.id]


@on_postgres
async def test_the_other_server_finds_the_jobs_of_one_that_was_killed_while_it_claimed_them(
    database: Database, other: Database
) -> None:
    rows = await JobRows.make(database)
    dead, alive = ClaimRecorder(rows), ClaimRecorder(JobRows(other))
    dead.connect(await rows.runner(slots=99), slots=99)
    _, socket = alive.connect(await rows.runner(slots=99), slots=99)
    with dead.scheduler.freshness.watching(database), alive.scheduler.freshness.watching(other) as heard:
        await dead.scheduler.sweep()
        await alive.scheduler.sweep()
        jobs = [await new(rows) for _ in range(5)]
        with dead.scheduler.freshness.reading():
            dead.scheduler.enqueue(jobs[:2])  # these have not even entered its lines
        dead.scheduler.enqueue(jobs[2:])
        assert await heard.get(timeout=0.2) == set()
        assert socket.claims == []
        await alive.scheduler.sweep()
    assert sorted(socket.claims) == sorted(job.id for job in jobs)
