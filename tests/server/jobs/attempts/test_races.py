"""Of two decisions about one job at the same time, the second one sees the effect of the first."""

import asyncio
from datetime import UTC, datetime

import pytest

from terracrew.api.jobs import Attempt, Job
from terracrew.errors import Superseded
from terracrew.protocol.events import StateFact
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import decide, service, store
from terracrew.server.jobs.attempts import received_states
from terracrew.server.state.model import Received
from tests.builders.deliveries import delivery
from tests.builders.job_rows import KILLED, JobRows, begin, begin_code
from tests.builders.transactions import held_open, until_blocked
from tests.server.hub.hub_clients import on_postgres
from tests.server.jobs.waiting_jobs import waiting

NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def _running(rows: JobRows) -> AttemptRef:
    return await (await rows.runner()).start(await rows.job(await rows.module(), kind="APPLY"))


async def _loaded(rows: JobRows, ref: AttemptRef) -> tuple[Job, Attempt]:
    found = await rows.db.write(lambda tx: store.hold(tx, ref.job_id, ref.attempt))
    assert found is not None
    return found


async def _cancel(tx: Tx, ref: AttemptRef) -> None:
    job = await store.hold_job(tx, ref.job_id)
    await store.save_transition(tx, job, decide.cancel(job, "interrupt", NOW, "somebody"))


async def test_a_requeue_that_did_not_see_the_cancellation_does_not_undo_it(rows: JobRows) -> None:
    """The job was queued again, as if nobody had asked for its end."""
    ref = await _running(rows)
    stale = await _loaded(rows, ref)
    await rows.db.write(lambda tx: _cancel(tx, ref))
    decision = decide.gone(*stale, KILLED, NOW)
    assert decision is not None
    with pytest.raises(Superseded):
        await rows.db.write(lambda tx: store.move(tx, *stale, decision))
    await rows.gone(ref)
    assert (await rows.load(ref.job_id)).status == "CANCELED"


@pytest.mark.feature("J15.lock", "O3.requeued")
async def test_an_attempt_that_has_just_begun_is_not_taken_for_one_that_never_did(rows: JobRows) -> None:
    """It was requeued with a permit to mutate in its hands, and two could apply at once."""
    ref = await _running(rows)
    stale = await _loaded(rows, ref)
    assert await begin_code(rows.db, ref, 0) == "begun"
    decision = decide.missing(*stale, "not heard", NOW)
    assert decision is not None
    with pytest.raises(Superseded):
        await rows.db.write(lambda tx: store.move(tx, *stale, decision))
    (attempt,) = await rows.attempts(ref.job_id)
    assert attempt.begun_at is not None
    assert await service.settle(rows.db, ref, lambda j, a, now: decide.missing(j, a, "not heard", now)) is None


@on_postgres
@pytest.mark.feature("J15.lock")
async def test_a_cancellation_and_a_begin_at_once_are_one_after_the_other(rows: JobRows) -> None:
    ref = await _running(rows)
    async with held_open(rows.db, lambda tx: _cancel(tx, ref)):
        beginning = asyncio.create_task(begin_code(rows.db, ref, 0))
        await until_blocked(rows.db)
    assert await beginning == "canceled"
    assert (await rows.load(ref.job_id)).cancel_mode == "interrupt"


@on_postgres
@pytest.mark.feature("J15.lock")
async def test_permission_is_not_given_on_a_state_that_is_being_replaced(rows: JobRows) -> None:
    """A late state was adopted because nobody had begun, while another began because nothing had been adopted."""
    first = await _running(rows)
    await begin(rows.db, first, 0)
    await rows.gone(first)
    job, late = await _loaded(rows, first)
    second = await (await rows.runner()).start(job.id, 2)
    received = Received(StateFact(sha256="1", size=2, serial=1, lineage="a", is_inline=True), b"sealed", None)
    async with held_open(rows.db, lambda tx: received_states.receive(tx, job, late, 2, received)):
        beginning = asyncio.create_task(begin_code(rows.db, second, 0))
        await until_blocked(rows.db)
    assert await beginning == "state_moved"


@pytest.mark.feature("S3.first")
async def test_claims_that_have_to_be_tried_one_by_one_get_no_more_slots_than_there_are(rows: JobRows) -> None:
    """Two jobs of one module broke up the group, and then each claim was alone, all at the same time, with the one free slot."""
    runner, others = await rows.runner(slots=1), [await rows.runner() for _ in range(2)]
    module = await rows.module()
    rivals = [await rows.job(module) for _ in range(2)]
    jobs = [await rows.job(await rows.module()) for _ in range(8)]
    claims = [*map(runner.claim, jobs), *(other.claim(job) for other, job in zip(others, rivals, strict=True))]
    won = await asyncio.gather(*claims)
    assert sum(each is not None for each in won[:8]) == 1
    assert sum(each is not None for each in won[8:]) == 1


@on_postgres
@pytest.mark.feature("J9.modes")
async def test_a_cancel_beside_a_plan_that_begins_to_wait_is_not_swallowed(rows: JobRows) -> None:
    """The job became AWAITING_APPROVAL with `cancel_mode` set, and nothing ever ended it."""
    ref = await _running(rows)
    async with held_open(rows.db, lambda tx: _cancel(tx, ref)):
        storing = asyncio.ensure_future(rows.take(delivery(ref, 2, waiting())))
        await until_blocked(rows.db)
    try:
        await storing
    except Superseded:  # the executor's connection repeats the delivery
        await rows.take(delivery(ref, 2, waiting()))
    assert (await rows.load(ref.job_id)).status == "CANCELED"
