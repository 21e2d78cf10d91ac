"""A new job is offered first by the server that created it, without a read, and no other server's runners claim it in vain."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from terracrew.server.db import Database
from terracrew.server.db.open import open_database
from terracrew.server.scheduling import new_jobs, reads, scheduler
from terracrew.server.scheduling.open_offers import WIDEN_SECONDS
from terracrew.server.scheduling.queue import Waiting
from terracrew.testing.job_rows import JobRows
from tests.server.hub.hub_clients import on_postgres
from tests.server.scheduling.recorded_offers import OfferRecorder

pytestmark = pytest.mark.feature("S3.offers")


async def new(rows: JobRows, priority: int = 0) -> Waiting:
    """A job that was just committed."""
    job = await rows.job(await rows.module())
    await rows.run("UPDATE jobs SET priority = :priority WHERE id = :id", priority=priority, id=job)
    (found,), _ = await rows.db.read(lambda tx: reads.queued(tx, [job]))
    return found


async def test_it_is_offered_at_once(rows: JobRows) -> None:
    recorder = OfferRecorder(rows)
    _, socket = recorder.connect(await rows.runner())
    with recorder.scheduler.freshness.watching(rows.db):
        await recorder.scheduler.sweep()
        job = await new(rows)
        recorder.scheduler.enqueue([job])
        assert socket.offers == [job.id], "nothing was awaited, so nothing was read"


async def test_it_enters_its_line_together_with_what_is_being_read(rows: JobRows) -> None:
    recorder = OfferRecorder(rows)
    scheduler = recorder.scheduler
    _, socket = recorder.connect(await rows.runner(slots=1), slots=1)
    with scheduler.freshness.watching(rows.db):
        await scheduler.sweep()
        first, second = await new(rows, priority=5), await new(rows)
        with scheduler.freshness.reading():
            scheduler.enqueue([second])
            assert socket.offers == []
            await scheduler.step({("queue", first.id)})
        assert socket.offers == [first.id], "the one with the higher priority has the slot"


async def test_one_that_another_server_gave_away_before_it_was_in_its_line_is_not_offered(rows: JobRows) -> None:
    recorder, elsewhere = OfferRecorder(rows), await rows.runner()
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
        assert socket.offers == []


async def test_a_burst_while_the_queue_is_read_leaves_nothing_to_read(rows: JobRows) -> None:
    """Each job that came during a read was read, too, and the next ones came meanwhile: a busy server never claimed ahead again."""
    recorder = OfferRecorder(rows)
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
    assert all(job.id in next(iter(recorder.registry.runners.values())).offered for job in jobs)


async def test_one_that_somebody_else_has_is_not_offered_to_every_instance(rows: JobRows) -> None:
    """After a refused claim, it was offered to twice as many instances every 50 ms, and each of them claimed it in vain."""
    recorder, elsewhere = OfferRecorder(rows), await rows.runner()
    sockets = {each.instance_id: socket for each, socket in [recorder.connect(await rows.runner()) for _ in range(16)]}
    running = asyncio.create_task(recorder.scheduler.run())
    await asyncio.sleep(0)
    job = await new(rows)
    recorder.scheduler.enqueue([job])
    async with asyncio.timeout(10):
        while not (asked := [each for each, socket in sockets.items() if socket.offers]):
            await asyncio.sleep(0.001)
    assert recorder.scheduler.claiming(job.id, recorder.registry.runners[asked[0]])
    await elsewhere.has(job.id)
    recorder.scheduler.missed(job.id, recorder.registry.runners[asked[0]])
    await asyncio.sleep(6 * WIDEN_SECONDS)
    running.cancel()
    assert sum(len(socket.offers) for socket in sockets.values()) == len(asked)
    assert all(not session.offered for session in recorder.registry.runners.values())


# ---- two servers on one PostgreSQL


@pytest.fixture
async def other(database_url: str, database: Database) -> AsyncIterator[Database]:
    """The database as another server sees it."""
    db = await open_database(database_url)
    yield db
    await db.close()


@on_postgres
async def test_a_job_whose_module_changed_while_it_was_created_is_offered_to_the_new_runner(database: Database) -> None:
    """Symptom: the change was handled before the job was known, so the job waited for the old runner forever."""
    rows = await JobRows.make(database)
    recorder = OfferRecorder(rows)
    old, now = await rows.runner(), await rows.runner()
    _, socket = recorder.connect(now)
    job = await new(rows)
    stale = msgspec.structs.replace(job, runner_id=old.runner_id)
    await rows.run("UPDATE modules SET runner_id = :r WHERE id = :id", r=now.runner_id, id=job.module_id)
    with recorder.scheduler.freshness.watching(database):
        await recorder.scheduler.step({("tree", job.module_id)})
        recorder.scheduler.enqueue([stale])
        assert socket.offers == []
        await recorder.scheduler.sweep()
    assert socket.offers == [job.id]


async def test_what_was_read_replaces_what_a_transaction_said(rows: JobRows) -> None:
    recorder = OfferRecorder(rows)
    instance, job = await rows.runner(), await new(rows)
    with recorder.scheduler.freshness.watching(rows.db):
        await recorder.scheduler.sweep()
        await rows.run("UPDATE jobs SET priority = 8 WHERE id = :id", id=job.id)
        with recorder.scheduler.freshness.reading():
            recorder.scheduler.enqueue([job])
            await recorder.scheduler.step({("queue", job.id)})
        later = await new(rows, priority=5)
        recorder.scheduler.enqueue([later])
        session, socket = recorder.connect(instance)
        recorder.scheduler.serve(session)
    assert socket.offers == [job.id, later.id]


async def test_very_many_new_jobs_let_other_work_run_in_between(rows: JobRows) -> None:
    """Symptom: the event loop stood still for seconds while the jobs of one commit entered their lines."""
    recorder = OfferRecorder(rows)
    job = await new(rows)
    many = [
        msgspec.structs.replace(job, id=f"job_{number}", module_id=f"mod_{number}")
        for number in range(10 * scheduler.MAX_JOBS_AT_ONCE)
    ]
    with recorder.scheduler.freshness.watching(rows.db):
        recorder.scheduler.enqueue(many)
        assert not recorder.scheduler.takes_standing_claims(), "a later job must not overtake them"
        turns = 0
        while recorder.scheduler.is_admitting:
            turns += 1
            await asyncio.sleep(0)
    assert turns == 9


@on_postgres
async def test_the_other_server_is_not_told_of_one_that_is_claimed_meanwhile(
    database: Database, other: Database
) -> None:
    rows = await JobRows.make(database)
    recorder = OfferRecorder(rows)
    session, _ = recorder.connect(await rows.runner(slots=9), slots=9)
    with recorder.scheduler.freshness.watching(database), other.listen("queue") as heard:
        await recorder.scheduler.sweep()
        claimed, left = await new(rows), await new(rows)
        recorder.scheduler.enqueue([claimed, left])
        recorder.scheduler.claimed(claimed.id, claimed.module_id, session)
        assert await heard.get(timeout=10) == {("queue", left.id)}


@on_postgres
@pytest.mark.parametrize("is_running", [True, False])
async def test_the_other_server_is_told_at_once_if_nobody_here_can_take_it(
    database: Database, other: Database, is_running: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if the scheduler of this server does not run, because it has just lost the database."""
    monkeypatch.setattr(new_jobs, "HEAD_START_SECONDS", 1e6)
    rows = await JobRows.make(database)
    here, there = OfferRecorder(rows), OfferRecorder(JobRows(other))
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
    assert socket.offers == [job.id]


@on_postgres
async def test_the_other_server_finds_the_jobs_of_one_that_was_killed_in_its_head_start(
    database: Database, other: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(new_jobs, "HEAD_START_SECONDS", 1e6)  # it never tells
    rows = await JobRows.make(database)
    dead, alive = OfferRecorder(rows), OfferRecorder(JobRows(other))
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
        assert socket.offers == []
        await alive.scheduler.sweep()
    assert sorted(socket.offers) == sorted(job.id for job in jobs)
