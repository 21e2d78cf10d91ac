"""No event is lost or stored twice, and a superseded attempt changes nothing current."""

import asyncio

import pytest

from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.events import (
    Output,
    OutputsRead,
    PlanSummary,
    Result,
    StepStatus,
)
from terracrew.protocol.messages import AttemptRef, BeginRefused, Begun
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide, service, store
from terracrew.server.jobs.attempts import received_states
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.logs import chunks
from terracrew.server.state import service as states
from terracrew.testing.deliveries import DONE, RUNNING, delivery, fact, log, state
from terracrew.testing.job_rows import KEYS, JobRows, begin


async def _text(db: Database, ref: AttemptRef) -> str:
    rows = await db.read(
        lambda tx: tx.all(
            "SELECT data FROM log_chunks WHERE job_id = :id AND attempt = :n ORDER BY first",
            id=ref.job_id,
            n=ref.attempt,
        )
    )
    return b"".join(chunks.text(row["data"]) for row in rows).decode()


@pytest.mark.feature("L3", "C4")
async def test_repeated_and_overlapping_batches_are_stored_once_and_in_order(database: Database) -> None:
    world = await JobRows.make(database)
    job = await world.job(await world.module())
    await (await world.runner()).has(job)
    ref, take = AttemptRef(job, 1), ingest(database, KEYS)
    lines = [log(f"{n}\n") for n in range(1, 10)]
    assert await take(delivery(ref, 1, *lines[:4])) == 4
    assert await take(delivery(ref, 1, *lines[:4])) == 4
    assert await take(delivery(ref, 3, *lines[2:7])) == 7
    with pytest.raises(Conflict):
        await take(delivery(ref, 9, lines[8]))
    assert await take(delivery(ref, 8, *lines[7:])) == 9
    assert await _text(database, ref) == "".join(f"{n}\n" for n in range(1, 10))
    (attempt,) = await world.attempts(job)
    assert (attempt.mark, attempt.lines) == (9, 9)


@pytest.mark.feature("C4")
async def test_the_same_batch_from_many_senders_at_once_is_stored_once(database: Database) -> None:
    world = await JobRows.make(database)
    job = await world.job(await world.module())
    await (await world.runner()).has(job)
    ref = AttemptRef(job, 1)
    takes = [ingest(database, KEYS) for _ in range(5)]

    async def send(n: int) -> None:
        for _ in range(20):
            try:
                await takes[n](delivery(ref, 1, log("once\n")))
                return
            except Conflict:
                continue

    await asyncio.gather(*(send(n) for n in range(5)))
    assert await _text(database, ref) == "once\n"


@pytest.mark.feature("J2", "J3")
async def test_an_attempt_goes_from_claimed_to_its_end_by_its_own_events(database: Database) -> None:
    world = await JobRows.make(database)
    job = await world.job(await world.module())
    await (await world.runner()).has(job)
    ref, take = AttemptRef(job, 1), ingest(database, KEYS)
    await take(delivery(ref, 1, RUNNING))
    assert (await world.load(job)).status == "PROCESSING"
    plan = fact(PlanSummary(add=2))
    await take(
        delivery(
            ref, 2, fact(StepStatus(Step.PLAN, "SUCCEEDED", 0)), plan, fact(OutputsRead({"a": Output(1)}, "x")), DONE
        )
    )
    ended = await world.load(job)
    assert (ended.status, ended.plan and ended.plan.add) == ("SUCCEEDED", 2)
    (step,) = await database.read(lambda tx: store.steps(tx, job, 1))
    assert (step.status, step.exit_code) == ("SUCCEEDED", 0)
    assert step.started_at is not None
    (attempt,) = await world.attempts(job)
    assert (attempt.outcome, attempt.is_gone) == ("succeeded", True)


@pytest.mark.feature("O3", "J2")
async def test_a_superseded_attempt_changes_nothing(database: Database) -> None:
    world = await JobRows.make(database)
    job = await world.job(await world.module(), kind="APPLY")
    runner = await world.runner()
    await runner.has(job)
    first, take = AttemptRef(job, 1), ingest(database, KEYS)
    await take(delivery(first, 1, RUNNING, log("first\n")))
    await service.settle(database, first, lambda j, a, now: decide.gone(j, a, decide.Report("killed"), now))
    await runner.has(job, attempt=2)
    second = AttemptRef(job, 2)
    await take(delivery(second, 1, RUNNING, log("second\n")))
    before = await world.load(job)
    # Its log, its steps and its result are kept under its own number; the job is as it was.
    assert await take(delivery(first, 3, log("late\n"), fact(PlanSummary(add=9)), DONE)) == 5
    assert await world.load(job) == before
    assert await _text(database, first) == "first\nlate\n"
    assert await _text(database, second) == "second\n"
    (note,) = await database.read(lambda tx: store.notes(tx, job))
    assert "SUCCEEDED too late" in note.text
    assert isinstance(await begin(database, first, 0), BeginRefused)


@pytest.mark.feature("J2")
async def test_a_late_report_never_changes_a_terminal_job(database: Database) -> None:
    world = await JobRows.make(database)
    job = await world.job(await world.module())
    await (await world.runner()).has(job)
    ref, take = AttemptRef(job, 1), ingest(database, KEYS)
    await take(delivery(ref, 1, RUNNING, DONE))
    ended = await world.load(job)
    with pytest.raises(Forbidden, match="its result has arrived"):
        await take(delivery(ref, 3, fact(Result("FAILED", "no, it failed"))))
    assert await world.load(job) == ended


@pytest.mark.feature("J15")
async def test_a_permit_names_the_state_it_was_planned_from(database: Database) -> None:
    world = await JobRows.make(database)
    module = await world.module()
    job = await world.job(module, kind="APPLY")
    await (await world.runner()).has(job)
    ref, take = AttemptRef(job, 1), ingest(database, KEYS)
    await take(delivery(ref, 1, RUNNING))
    refused = await begin(database, ref, 7)
    assert isinstance(refused, BeginRefused)
    assert refused.code == "state_moved"
    assert await begin(database, ref, 0) == Begun(0)
    assert await begin(database, ref, 0) == Begun(0), "a repeated begin is answered again"
    record, received = state(1)
    await take(delivery(ref, 2, record, DONE, received={2: received}))
    now = await database.read(lambda tx: states.current(tx, module))
    assert now is not None
    assert (now.version, now.serial) == (1, 1)


@pytest.mark.feature("J15")
async def test_the_mark_does_not_pass_a_state_that_is_not_stored(database: Database) -> None:
    world = await JobRows.make(database)
    job = await world.job(await world.module(), kind="APPLY")
    await (await world.runner()).has(job)
    ref, take = AttemptRef(job, 1), ingest(database, KEYS)
    record, received = state(1)
    assert await take(delivery(ref, 1, RUNNING, log("a\n"), record, log("b\n"), DONE)) == 2
    assert (await world.load(job)).status == "PROCESSING"
    assert await _text(database, ref) == "a\n"
    assert await take(delivery(ref, 3, record, log("b\n"), DONE, received={3: received})) == 5
    assert (await world.load(job)).status == "SUCCEEDED"


@pytest.mark.feature("J15", "O3")
async def test_a_fenced_attempts_state_goes_into_quarantine_and_stops_the_next_job(database: Database) -> None:
    world = await JobRows.make(database)
    module = await world.module()
    job = await world.job(module, kind="APPLY")
    runner = await world.runner()
    await runner.has(job)
    first, take = AttemptRef(job, 1), ingest(database, KEYS)
    await take(delivery(first, 1, RUNNING))
    await begin(database, first, 0)
    await take(delivery(first, 2, fact(StepStatus(Step.APPLY, "FAILED", 1))))
    report = decide.Report("killed", last=2, is_delivered=True)
    await service.settle(database, first, lambda j, a, now: decide.gone(j, a, report, now))
    await runner.has(job, attempt=2)
    second = AttemptRef(job, 2)
    await take(delivery(second, 1, RUNNING))
    assert await begin(database, second, 0) == Begun(0)
    # The second attempt is between its begin and its end: nothing is adopted under it.
    record, received = state(1)
    await take(delivery(first, 3, record, received={3: received}))
    assert await database.read(lambda tx: states.current(tx, module)) is None
    assert (await database.read(lambda tx: received_states.standing(tx, module))).has_quarantine
    await take(delivery(second, 2, DONE))
    third = await world.job(module, kind="APPLY")
    assert await runner.claim(third) is None, "nothing is planned on this module before a person has decided"
