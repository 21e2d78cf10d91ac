"""A decision about a job changes the job and its attempt together, and nothing of an ended attempt is left running."""

import math
import struct

import pytest

from terracrew.errors import Forbidden
from terracrew.protocol import events
from terracrew.protocol.events import EngineUsed, Output, OutputsRead, PlanSummary, Result, StepStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Database
from terracrew.server.history.points import History
from terracrew.server.jobs import attempt_store, decide
from terracrew.server.jobs.attempts import received_states
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.state import service as states
from tests.builders.deliveries import DONE, RUNNING, delivery, fact, state
from tests.builders.job_rows import KEYS, Instance, JobRows, begin


async def _claimed(database: Database, kind: str = "PLAN") -> tuple[JobRows, Instance, AttemptRef]:
    rows = await JobRows.make(database)
    job, runner = await rows.job(await rows.module(), kind=kind), await rows.runner()
    await runner.has(job)
    return rows, runner, AttemptRef(job, 1)


async def _gone(database: Database, ref: AttemptRef, reason: str = "killed") -> None:
    await JobRows(database).gone(ref, decide.Report(reason))


@pytest.mark.feature("O5.capped")
async def test_executors_that_die_before_their_first_word_are_counted_too(database: Database) -> None:
    """A job whose executor never came to say anything was started again and again, for ever."""
    world, runner, ref = await _claimed(database)
    for number in range(1, decide.MAX_LOSSES + 1):
        if number > 1:
            await runner.has(ref.job_id, number)
        await _gone(database, AttemptRef(ref.job_id, number), "the executor ended with exit code 70")
    ended = await world.load(ref.job_id)
    assert ended.status == "FAILED"
    assert "exit code 70" in ended.message


@pytest.mark.feature("J3.steps", "O3.requeued")
async def test_what_a_lost_attempt_planned_is_not_the_jobs_any_more(database: Database) -> None:
    world, _, ref = await _claimed(database)
    plan, engine = fact(PlanSummary(add=9)), fact(EngineUsed("tofu", "1.12.6"))
    await ingest(database, KEYS, History(KEYS))(delivery(ref, 1, RUNNING, plan, engine))
    assert (await world.load(ref.job_id)).plan is not None
    await _gone(database, ref)
    again = await world.load(ref.job_id)
    assert (again.status, again.plan, again.engine_version) == ("QUEUED", None, "")


@pytest.mark.feature("J3.steps")
async def test_no_step_of_an_attempt_that_has_ended_is_running(database: Database) -> None:
    """The page of a canceled job showed a step that ran for days."""
    _, _, ref = await _claimed(database)
    await ingest(database, KEYS, History(KEYS))(delivery(ref, 1, RUNNING))
    await _gone(database, ref)
    (step,) = await database.read(lambda tx: attempt_store.steps(tx, ref.job_id, 1))
    assert step.status == "CANCELED"
    assert step.finished_at is not None


async def test_the_outputs_are_those_of_the_attempt_that_succeeded(database: Database) -> None:
    """Those of an attempt that read them and was lost before its result were kept, and its successor's were not."""
    _, runner, ref = await _claimed(database)
    take = ingest(database, KEYS, History(KEYS))
    await take(delivery(ref, 1, RUNNING, fact(OutputsRead({"a": Output(1)}, "first"))))
    await _gone(database, ref)
    await runner.has(ref.job_id, 2)
    second = AttemptRef(ref.job_id, 2)
    await take(delivery(second, 1, RUNNING, fact(OutputsRead({"a": Output(2)}, "second")), DONE))
    row = await database.read(lambda tx: tx.one("SELECT sha256 FROM outputs"))
    assert row is not None
    assert row["sha256"] == "second"


@pytest.mark.feature("J15.lock")
async def test_a_state_of_an_attempt_without_leave_is_never_adopted(database: Database) -> None:
    """The executor of a plan could make its own state the current one."""
    world, _, ref = await _claimed(database, "APPLY")
    record, received = state(1)
    await ingest(database, KEYS, History(KEYS))(delivery(ref, 1, RUNNING, record, received={2: received}))
    module = (await world.load(ref.job_id)).module_id
    assert await database.read(lambda tx: states.current(tx, module)) is None
    assert (await database.read(lambda tx: received_states.module_facts(tx, module))).has_quarantine


async def test_there_is_no_permit_for_a_plan(database: Database) -> None:
    _, _, ref = await _claimed(database, "PLAN")
    with pytest.raises(Forbidden):
        await begin(database, ref, 0)


async def test_a_second_cancellation_can_only_be_harsher(database: Database) -> None:
    world, _, ref = await _claimed(database)
    job = await world.load(ref.job_id)
    killed = decide.cancel(job, "kill", job.created_at, "somebody")
    assert decide.cancel(killed, "after_step", job.created_at, "somebody").cancel_mode == "kill"
    softly = decide.cancel(job, "after_step", job.created_at, "somebody")
    assert decide.cancel(softly, "interrupt", job.created_at, "somebody").cancel_mode == "interrupt"


@pytest.mark.feature("C3.executor")
@pytest.mark.parametrize("by_runner", [True, False])
async def test_a_reason_that_no_database_could_store_does_not_keep_a_job_from_its_end(
    database: Database, by_runner: bool
) -> None:
    """PostgreSQL refused a NUL in the engine's last words, and the executor delivered them again for ever."""
    world, _, ref = await _claimed(database)
    if by_runner:
        await _gone(database, ref, "last words: \0\0")
        (attempt,) = await world.attempts(ref.job_id)
        assert "\ufffd" in attempt.reason
    else:
        await ingest(database, KEYS, History(KEYS))(
            delivery(ref, 1, RUNNING, fact(Result("FAILED", "Error: \0" + "x" * 100_000)))
        )
        ended = await world.load(ref.job_id)
        assert ended.status == "FAILED"
        assert ended.message.startswith("Error: \ufffdxxx")
        assert len(ended.message) <= 8_000


@pytest.mark.feature("C4.idempotent")
async def test_a_delivery_for_a_job_that_is_no_more_disturbs_nobody_else(database: Database) -> None:
    import asyncio

    world, _, ref = await _claimed(database)
    take = ingest(database, KEYS, History(KEYS))
    results = await asyncio.gather(
        take(delivery(AttemptRef("job_none", 1), 1, RUNNING)), take(delivery(ref, 1, RUNNING)), return_exceptions=True
    )
    assert isinstance(results[0], Exception)
    assert results[1] == 1
    assert (await world.load(ref.job_id)).status == "PROCESSING"


@pytest.mark.parametrize("time", [math.nan, math.inf, -1.0, 1e300])
def test_a_time_that_no_calendar_has_is_malformed(time: float) -> None:
    """It was stored, and the page of the job could not be shown any more."""
    packed = bytearray(events.pack_fact(StepStatus(Step.PLAN, "RUNNING"), Step.PLAN, 1.0))
    struct.pack_into(">d", packed, 8, time)
    with pytest.raises(ValueError, match="time"):
        list(events.unpack(bytes(packed)))
