"""No event is lost or stored twice, and a superseded attempt changes nothing current."""

import asyncio
import time

import pytest

from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.events import (
    Output,
    OutputsRead,
    PlanSummary,
    Result,
    StepStatus,
)
from terracrew.protocol.messages import AttemptRef, BeginRefused, Heartbeat
from terracrew.protocol.spec import Step
from terracrew.server.connections import store as instance_store
from terracrew.server.db.seam import Database
from terracrew.server.history.points import History
from terracrew.server.jobs import attempt_store, decide
from terracrew.server.jobs.attempts import received_states
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.logs import chunks
from terracrew.server.state import service as states
from tests.builders.deliveries import DONE, RUNNING, delivery, fact, log, state
from tests.builders.job_rows import KEYS, JobRows, begin, begin_code
from tests.server.hub.statement_counts import NotingTx, on_each_unit


async def _text(db: Database, ref: AttemptRef) -> str:
    rows = await db.read(
        lambda tx: tx.all(
            "SELECT data FROM log_chunks WHERE job_id = :id AND attempt = :n ORDER BY first",
            id=ref.job_id,
            n=ref.attempt,
        )
    )
    return b"".join(chunks.text(row["data"]) for row in rows).decode()


@pytest.mark.feature("C4.idempotent", "L3.idempotent")
async def test_repeated_and_overlapping_batches_are_stored_once_and_in_order(rows: JobRows) -> None:
    job, take = await rows.job(await rows.module()), rows.take
    ref = await (await rows.runner()).claimed(job)
    lines = [log(f"{n}\n") for n in range(1, 10)]
    assert await take(delivery(ref, 1, *lines[:4])) == 4
    assert await take(delivery(ref, 1, *lines[:4])) == 4
    assert await take(delivery(ref, 3, *lines[2:7])) == 7
    with pytest.raises(Conflict):
        await take(delivery(ref, 9, lines[8]))
    assert await take(delivery(ref, 8, *lines[7:])) == 9
    assert await _text(rows.db, ref) == "".join(f"{n}\n" for n in range(1, 10))
    (attempt,) = await rows.attempts(job)
    assert (attempt.mark, attempt.lines) == (9, 9)


async def test_a_log_that_reaches_its_limit_is_cut_and_says_so_and_the_job_continues(rows: JobRows) -> None:
    """25 s of one job's output stored 835 MB at the server."""
    job = await rows.job(await rows.module())
    ref = await (await rows.runner()).claimed(job)
    take = ingest(rows.db, KEYS, History(KEYS), max_log_bytes=2_000_000)
    lines = [log(f"{n} ".ljust(400_000, "x") + "\n") for n in range(10)]
    assert await take(delivery(ref, 1, RUNNING, *lines[:3])) == 4
    assert await take(delivery(ref, 5, *lines[3:8])) == 9
    assert await take(delivery(ref, 5, *lines[3:8])) == 9, "it is sent again, and the mark has passed it"
    assert await take(delivery(ref, 10, *lines[8:], DONE)) == 12
    text = await _text(rows.db, ref)
    assert text.startswith("0 xx")
    assert text.count("x\n") == 4
    assert text.endswith(
        "has reached 2 MB (max_log_megabytes_per_attempt in the server's settings). The job continues.\n"
    )
    assert text.count("The rest of this log is not stored") == 1
    assert len(text) < 2_001_000
    (attempt,) = await rows.attempts(job)
    assert (attempt.outcome, attempt.lines, attempt.is_output_missing) == ("succeeded", 6, True)


async def test_deliveries_that_come_together_share_five_statements(
    rows: JobRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs and attempts were read by two statements."""
    runner, texts = await rows.runner(), list[str]()
    refs = [await runner.claimed(await rows.job(await rows.module())) for _ in range(4)]
    on_each_unit(rows.db, monkeypatch, lambda tx: NotingTx(tx, texts))
    take = ingest(rows.db, KEYS, History(KEYS))
    assert await asyncio.gather(*(take(delivery(ref, 1, RUNNING, log("a\n"))) for ref in refs)) == [2] * 4
    assert len(texts) == 5  # jobs with their attempts are read; chunks, steps, attempts and jobs are written
    texts.clear()
    assert await take(delivery(refs[0], 3, log("b\n"))) == 3
    assert len(texts) == 3


@pytest.mark.feature("C4.idempotent")
async def test_the_same_batch_from_many_senders_at_once_is_stored_once(rows: JobRows) -> None:
    ref = await (await rows.runner()).claimed(await rows.job(await rows.module()))
    takes = [ingest(rows.db, KEYS, History(KEYS)) for _ in range(5)]

    async def send(n: int) -> None:
        for _ in range(20):
            try:
                await takes[n](delivery(ref, 1, log("once\n")))
                return
            except Conflict:
                continue

    await asyncio.gather(*(send(n) for n in range(5)))
    assert await _text(rows.db, ref) == "once\n"


@pytest.mark.feature("C3.executor", "J2.transitions", "J3.order", "J3.steps")
async def test_an_attempt_goes_from_claimed_to_its_end_by_its_own_events(rows: JobRows) -> None:
    job, take = await rows.job(await rows.module()), rows.take
    ref = await (await rows.runner()).claimed(job)
    await take(delivery(ref, 1, RUNNING))
    assert (await rows.load(job)).status == "PROCESSING"
    plan = fact(PlanSummary(add=2))
    await take(
        delivery(
            ref, 2, fact(StepStatus(Step.PLAN, "SUCCEEDED", 0)), plan, fact(OutputsRead({"a": Output(1)}, "x")), DONE
        )
    )
    ended = await rows.load(job)
    assert (ended.status, ended.plan and ended.plan.add) == ("SUCCEEDED", 2)
    (step,) = await rows.db.read(lambda tx: attempt_store.steps(tx, job, 1))
    assert (step.status, step.exit_code) == ("SUCCEEDED", 0)
    assert step.started_at is not None
    (attempt,) = await rows.attempts(job)
    assert (attempt.outcome, attempt.is_gone) == ("succeeded", True)


@pytest.mark.feature("J2.terminal", "O3.fenced")
async def test_a_superseded_attempt_changes_nothing(rows: JobRows) -> None:
    job = await rows.job(await rows.module(), kind="APPLY")
    runner = await rows.runner()
    first, take = await runner.claimed(job), rows.take
    await take(delivery(first, 1, RUNNING, log("first\n")))
    await rows.gone(first)
    second = await runner.claimed(job, 2)
    await take(delivery(second, 1, RUNNING, log("second\n")))
    before = await rows.load(job)
    # Its log, its steps and its result are kept under its own number; the job is as it was.
    assert await take(delivery(first, 3, log("late\n"), fact(PlanSummary(add=9)), DONE)) == 5
    assert await rows.load(job) == before
    assert await _text(rows.db, first) == "first\nlate\n"
    assert await _text(rows.db, second) == "second\n"
    (note,) = await rows.db.read(lambda tx: attempt_store.notes(tx, job))
    assert "SUCCEEDED too late" in note.text
    assert isinstance(await begin(rows.db, first, 0), BeginRefused)


@pytest.mark.feature("J2.terminal")
async def test_a_late_report_never_changes_a_terminal_job(rows: JobRows) -> None:
    job, take = await rows.job(await rows.module()), rows.take
    ref = await (await rows.runner()).claimed(job)
    await take(delivery(ref, 1, RUNNING, DONE))
    ended = await rows.load(job)
    with pytest.raises(Forbidden, match="its result has arrived"):
        await take(delivery(ref, 3, fact(Result("FAILED", "no, it failed"))))
    assert await rows.load(job) == ended


@pytest.mark.feature("J15.lock")
async def test_a_permit_names_the_state_it_was_planned_from(rows: JobRows) -> None:
    module = await rows.module()
    job = await rows.job(module, kind="APPLY")
    ref, take = await (await rows.runner()).start(job), rows.take
    assert await begin_code(rows.db, ref, 7) == "state_moved"
    assert await begin_code(rows.db, ref, 0) == "begun"
    assert await begin_code(rows.db, ref, 0) == "begun", "a repeated begin is answered again"
    record, received = state(1)
    await take(delivery(ref, 2, record, DONE, received={2: received}))
    now = await rows.db.read(lambda tx: states.current(tx, module))
    assert now is not None
    assert (now.version, now.serial) == (1, 1)


@pytest.mark.feature("O2.notices")
async def test_a_change_does_not_begin_on_a_runner_that_ends_soon(rows: JobRows) -> None:
    """It would have been interrupted in the middle, although another runner could have made it in one piece."""
    job = await rows.job(await rows.module(), kind="APPLY")
    runner = await rows.runner()
    first = await runner.start(job)

    async def announce(seconds: float) -> None:
        beat = Heartbeat("1", is_draining=False, attempts=[], ends_at=time.time() + seconds)
        await rows.db.write(lambda tx: instance_store.set_reported(tx, runner.runner_id, runner.id, 1, beat))

    await announce(120.0)
    assert await begin_code(rows.db, first, 0) == "leaving"
    back = await rows.load(job)
    assert (back.status, back.losses) == ("QUEUED", 0)
    await announce(600.0)
    second = await runner.start(job, 2)
    assert await begin_code(rows.db, second, 0) == "begun"
    await announce(60.0)
    assert await begin_code(rows.db, second, 0) == "begun", "what has begun is not sent back"


@pytest.mark.feature("J15.kept")
async def test_the_mark_does_not_pass_a_state_that_is_not_stored(rows: JobRows) -> None:
    job = await rows.job(await rows.module(), kind="APPLY")
    ref, take = await (await rows.runner()).claimed(job), rows.take
    record, received = state(1)
    assert await take(delivery(ref, 1, RUNNING, log("a\n"), record, log("b\n"), DONE)) == 2
    assert (await rows.load(job)).status == "PROCESSING"
    assert await _text(rows.db, ref) == "a\n"
    assert await take(delivery(ref, 3, record, log("b\n"), DONE, received={3: received})) == 5
    assert (await rows.load(job)).status == "SUCCEEDED"


@pytest.mark.feature("J15.kept", "O3.fenced")
async def test_a_fenced_attempts_state_goes_into_quarantine_and_stops_the_next_job(rows: JobRows) -> None:
    module = await rows.module()
    job = await rows.job(module, kind="APPLY")
    runner = await rows.runner()
    first, take = await runner.start(job), rows.take
    await begin(rows.db, first, 0)
    await take(delivery(first, 2, fact(StepStatus(Step.APPLY, "FAILED", 1))))
    await rows.gone(first, decide.Report("killed", last=2, is_delivered=True))
    second = await runner.start(job, 2)
    assert await begin_code(rows.db, second, 0) == "begun"
    # The second attempt is between its begin and its end: nothing is adopted under it.
    record, received = state(1)
    await take(delivery(first, 3, record, received={3: received}))
    assert await rows.db.read(lambda tx: states.current(tx, module)) is None
    assert (await rows.db.read(lambda tx: received_states.module_facts(tx, module))).has_quarantine
    await take(delivery(second, 2, DONE))
    third = await rows.job(module, kind="APPLY")
    assert await runner.claim(third) is None, "nothing is planned on this module before a person has decided"
