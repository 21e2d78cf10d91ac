"""Of two decisions about one job at the same time, the second one sees the effect of the first."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

from terracrew.errors import Superseded
from terracrew.protocol.events import KeptPlan, Result, StateFact, StepStatus
from terracrew.protocol.messages import AttemptRef, BeginRefused, Begun
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import decide, service, store
from terracrew.server.jobs.attempts import received_states
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.jobs.model import Attempt, Job
from terracrew.server.state.model import Received
from terracrew.testing.deliveries import delivery, fact
from terracrew.testing.job_rows import KEYS, JobRows, begin
from tests.server.hub.hub_clients import on_postgres

RUNNING, DONE = fact(StepStatus(Step.PLAN, "RUNNING")), fact(Result("SUCCEEDED"))
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def _running(world: JobRows) -> AttemptRef:
    job = await world.job(await world.module(), kind="APPLY")
    await (await world.runner()).has(job)
    await ingest(world.db, KEYS)(delivery(AttemptRef(job, 1), 1, RUNNING))
    return AttemptRef(job, 1)


async def _loaded(world: JobRows, ref: AttemptRef) -> tuple[Job, Attempt]:
    found = await world.db.write(lambda tx: store.hold(tx, ref.job_id, ref.attempt))
    assert found is not None
    return found


async def _cancel(world: JobRows, ref: AttemptRef) -> None:
    async def work(tx: Tx) -> None:
        job = await store.hold_job(tx, ref.job_id)
        await store.save_transition(tx, job, decide.cancel(job, "interrupt", NOW, "somebody"))

    await world.db.write(work)


@pytest.mark.feature("J5")
async def test_a_requeue_that_did_not_see_the_cancellation_does_not_undo_it(database: Database) -> None:
    """The job was queued again, as if nobody had asked for its end."""
    world = await JobRows.make(database)
    ref = await _running(world)
    stale = await _loaded(world, ref)
    await _cancel(world, ref)
    decision = decide.gone(*stale, decide.Report("killed"), NOW)
    assert decision is not None
    with pytest.raises(Superseded):
        await database.write(lambda tx: store.move(tx, *stale, decision))
    await service.settle(
        database, ref, lambda job, attempt, now: decide.gone(job, attempt, decide.Report("killed"), now)
    )
    assert (await world.load(ref.job_id)).status == "CANCELED"


@pytest.mark.feature("O3", "J15")
async def test_an_attempt_that_has_just_begun_is_not_taken_for_one_that_never_did(database: Database) -> None:
    """It was requeued with a permit to mutate in its hands, and two could apply at once."""
    world = await JobRows.make(database)
    ref = await _running(world)
    stale = await _loaded(world, ref)
    assert await begin(database, ref, 0) == Begun(0)
    decision = decide.missing(*stale, "not heard", NOW)
    assert decision is not None
    with pytest.raises(Superseded):
        await database.write(lambda tx: store.move(tx, *stale, decision))
    (attempt,) = await world.attempts(ref.job_id)
    assert attempt.begun_at is not None
    assert await service.settle(database, ref, lambda j, a, now: decide.missing(j, a, "not heard", now)) is None


@on_postgres
@pytest.mark.feature("J5", "J15")
async def test_a_cancellation_and_a_begin_at_once_are_one_after_the_other(database: Database) -> None:
    world = await JobRows.make(database)
    ref = await _running(world)
    is_canceling, go_on = asyncio.Event(), asyncio.Event()

    async def cancel(tx: Tx) -> None:
        job = await store.hold_job(tx, ref.job_id)
        is_canceling.set()
        await go_on.wait()
        await store.save_transition(tx, job, decide.cancel(job, "interrupt", NOW, "somebody"))

    canceling = asyncio.create_task(database.write(cancel))
    await is_canceling.wait()
    beginning = asyncio.create_task(begin(database, ref, 0))
    await _until_blocked(database)
    go_on.set()
    await canceling
    answer = await beginning
    assert isinstance(answer, BeginRefused)
    assert answer.code == "canceled"
    assert (await world.load(ref.job_id)).cancel_mode == "interrupt"


@on_postgres
@pytest.mark.feature("J15")
async def test_leave_is_not_given_on_a_state_that_is_being_replaced(database: Database) -> None:
    """A late state was adopted because nobody had begun, while another began because nothing had been adopted."""
    world = await JobRows.make(database)
    first = await _running(world)
    await begin(database, first, 0)
    await service.settle(
        database, first, lambda job, attempt, now: decide.gone(job, attempt, decide.Report("killed"), now)
    )
    job, late = await _loaded(world, first)
    await (await world.runner()).has(job.id, attempt=2)
    await ingest(database, KEYS)(delivery(AttemptRef(job.id, 2), 1, RUNNING))
    is_received, go_on = asyncio.Event(), asyncio.Event()

    async def receive(tx: Tx) -> None:
        told = StateFact(sha256="1", size=2, serial=1, lineage="a", is_inline=True)
        await received_states.receive(tx, job, late, 2, Received(told, b"sealed", None))
        is_received.set()
        await go_on.wait()

    receiving = asyncio.create_task(database.write(receive))
    await is_received.wait()
    beginning = asyncio.create_task(begin(database, AttemptRef(job.id, 2), 0))
    await _until_blocked(database)
    go_on.set()
    await receiving
    answer = await beginning
    assert isinstance(answer, BeginRefused)
    assert answer.code == "state_moved"


@pytest.mark.feature("S3")
async def test_claims_that_have_to_be_tried_one_by_one_get_no_more_slots_than_there_are(database: Database) -> None:
    """Two jobs of one module broke up the group, and then each claim was alone, all at the same time, with the one free slot."""
    world = await JobRows.make(database)
    runner, others = await world.runner(slots=1), [await world.runner() for _ in range(2)]
    module = await world.module()
    rivals = [await world.job(module) for _ in range(2)]
    jobs = [await world.job(await world.module()) for _ in range(8)]
    claims = [*map(runner.claim, jobs), *(other.claim(job) for other, job in zip(others, rivals, strict=True))]
    won = await asyncio.gather(*claims)
    assert sum(each is not None for each in won[:8]) == 1
    assert sum(each is not None for each in won[8:]) == 1


async def _until_blocked(database: Database) -> None:
    end = time.monotonic() + 20
    while not await database.read(lambda tx: tx.one("SELECT 1 AS yes FROM pg_locks WHERE NOT granted LIMIT 1")):
        assert time.monotonic() < end


@on_postgres
@pytest.mark.feature("J8", "J9")
async def test_a_cancel_beside_a_plan_that_begins_to_wait_is_not_swallowed(database: Database) -> None:
    """The job became AWAITING_APPROVAL with `cancel_mode` set, and nothing ever ended it."""
    world = await JobRows.make(database)
    ref = await _running(world)
    held, go_on = asyncio.Event(), asyncio.Event()

    async def cancel(tx: Tx) -> None:
        job = await store.hold_job(tx, ref.job_id)
        held.set()
        await go_on.wait()
        await store.save_transition(tx, job, decide.cancel(job, "interrupt", NOW, "somebody"))

    canceling = asyncio.create_task(database.write(cancel))
    await held.wait()
    waiting = fact(Result("WAITING", "look", kept=KeptPlan(0, "ab", 1, "/w")))
    storing = asyncio.ensure_future(ingest(database, KEYS)(delivery(ref, 2, waiting)))
    await asyncio.sleep(0.5)  # until the delivery waits for the row that the cancel holds
    go_on.set()
    await canceling
    try:
        await storing
    except Superseded:  # the executor's connection repeats the delivery
        await ingest(database, KEYS)(delivery(ref, 2, waiting))
    assert (await world.load(ref.job_id)).status == "CANCELED"
