"""An attempt that is lost during a change keeps its lock for a lease, is fenced then, and leaves its module in doubt."""

from datetime import timedelta

import pytest

from terracrew.errors import Conflict, Unavailable
from terracrew.protocol.events import KeptPlan, Result, StepStatus
from terracrew.protocol.messages import AttemptRef, BeginRefused
from terracrew.protocol.spec import Step
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals, attempt_store, decide, service
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.jobs.reaper import Reaper
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons
from terracrew.server.state import service as states
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import delivery, fact, state
from tests.builders.job_rows import Instance, JobRows, begin, begin_code, change_jobs
from tests.stateful.faulty_database import Cut, Faulty

HOUR_SECONDS = 3600.0
APPLIED = fact(StepStatus(Step.APPLY, "SUCCEEDED", 0))
WAITING = fact(Result("WAITING", "", kept=KeptPlan(0, "ab", 2, "/workspaces/x")))


class Lost:
    """A job whose first attempt has begun, and has not been heard for an hour."""

    def __init__(self, rows: JobRows, runner: Instance, module: str, ref: AttemptRef, clock: ShiftedClock) -> None:
        self.rows, self.runner, self.module, self.ref, self.clock = rows, runner, module, ref, clock
        self.admin = Principal("user", "usr_1", "olga", rows.organization, is_system_admin=True)
        self.time = 0.0
        self.registry = Registry(clock=lambda: self.time)
        for _ in range(30):  # it has watched for longer than anybody may be silent
            self.time += 4
            self.registry.note_check()
        self.reaper = Reaper(rows.db, self.registry, decide.APPLY_LEASE)
        self.take = rows.take

    @classmethod
    async def make(cls, db: Database, clock: ShiftedClock) -> "Lost":
        rows = await JobRows.make(db)
        await rows.administrators("usr_1")
        module, runner = await rows.module(), await rows.runner()
        job = await rows.job(module, kind="APPLY")
        lost = cls(rows, runner, module, AttemptRef(job, 1), clock)
        await lost.start(1)
        assert await begin_code(db, lost.ref, 0) == "begun"
        clock.advance(HOUR_SECONDS)
        return lost

    async def start(self, attempt: int) -> AttemptRef:
        return await self.runner.start(self.ref.job_id, attempt)

    async def gone(self, report: decide.Report) -> None:
        await self.rows.gone(self.ref, report)

    async def step(self) -> None:
        self.time += 1
        self.registry.note_check()
        await self.reaper.step()

    async def job(self) -> service.Job:
        return await self.rows.load(self.ref.job_id)

    async def attempt(self, number: int = 1) -> service.Attempt:
        return (await self.rows.attempts(self.ref.job_id))[number - 1]

    async def reason(self) -> str:
        job = await self.job()
        found = await self.rows.db.read(
            lambda tx: reasons.why(tx, job, reasons.Watch(self.registry, decide.APPLY_LEASE))
        )
        return found.code if found else ""

    async def given_up(self) -> None:
        await self.step()
        await lost_attempts.give_up(self.rows.db, self.registry, self.admin, self.ref.job_id, 1)


@pytest.fixture
async def lost(database: Database, clock: ShiftedClock) -> Lost:
    return await Lost.make(database, clock)


@pytest.mark.feature("O3.lease", "S6.words")
async def test_a_job_that_is_lost_in_the_middle_of_a_change_waits_locked_and_says_so(lost: Lost) -> None:
    await lost.step()
    job, attempt = await lost.job(), await lost.attempt()
    assert (job.status, job.attempt, attempt.ended_at) == ("PROCESSING", 1, None)
    assert attempt.lost_at is not None
    assert await lost.reason() == "lost"
    other = await lost.rows.job(lost.module)
    assert await lost.runner.claim(other) is None, "the lock is the lost attempt's"


@pytest.mark.feature("O3.lease")
async def test_the_lease_is_over_when_the_attempt_is_heard_again(lost: Lost) -> None:
    await lost.step()
    lost.clock.advance(HOUR_SECONDS)  # longer than the lease
    await lost.runner.heartbeat(lost.ref)
    await lost.step()
    attempt = await lost.attempt()
    assert (attempt.lost_at, attempt.ended_at) == (None, None)
    assert await lost.reason() == ""


@pytest.mark.feature("O3.lease")
async def test_when_the_lease_has_run_out_the_attempt_is_fenced_and_the_module_in_doubt(lost: Lost) -> None:
    await lost.step()
    await lost.step()
    assert (await lost.attempt()).ended_at is None, "the lease runs from the loss"
    lost.clock.advance(HOUR_SECONDS)
    await lost.step()
    job, attempt = await lost.job(), await lost.attempt()
    assert (job.status, job.attempt, job.losses) == ("QUEUED", 2, 1)
    assert (attempt.outcome, attempt.is_in_doubt, attempt.is_gone) == ("lost", True, False)
    assert await begin(lost.rows.db, lost.ref, 0) == BeginRefused(
        "superseded", "this attempt is no longer the current one"
    )


@pytest.mark.feature("O3.lease")
async def test_a_person_cannot_give_up_what_is_heard(lost: Lost) -> None:
    with pytest.raises(Conflict, match="is in contact"):
        await lost_attempts.give_up(lost.rows.db, lost.registry, lost.admin, lost.ref.job_id, 1)
    await lost.step()
    await lost.runner.heartbeat(lost.ref)
    with pytest.raises(Conflict, match="is in contact"):
        await lost_attempts.give_up(lost.rows.db, lost.registry, lost.admin, lost.ref.job_id, 1)


@pytest.mark.feature("J8.needed", "O3.doubt")
async def test_on_a_module_in_doubt_every_plan_of_every_job_waits_for_a_person(lost: Lost) -> None:
    await lost.given_up()
    await lost.take(delivery(await lost.start(2), 2, WAITING))  # so that the next job of the module may start
    other = await lost.rows.job(lost.module, kind="APPLY")
    ref = await lost.runner.start(other)
    refused = await begin(lost.rows.db, ref, 0, registry=lost.registry)
    assert isinstance(refused, BeginRefused)
    assert refused.code == "approval"
    assert "was cut short" in refused.message


@pytest.mark.feature("J8.needed", "O3.doubt")
async def test_doubt_ends_when_a_plan_that_was_approved_after_the_fence_has_begun(lost: Lost) -> None:
    await lost.given_up()
    second = await lost.start(2)
    await lost.take(delivery(second, 2, WAITING))
    assert (await lost.job()).status == "AWAITING_APPROVAL"
    assert await lost.reason() == "in_doubt"
    await approvals.approve(lost.rows.db, lost.registry, lost.admin, lost.ref.job_id, 2, [lost.ref])
    third = await lost.start(3)
    assert await begin_code(lost.rows.db, third, 0, 2, lost.registry) == "begun"
    assert not (await lost.attempt()).is_in_doubt
    plan = await lost.rows.db.read(lambda tx: plan_store.get(tx, lost.ref.job_id, 2))
    assert plan is not None
    assert plan.applied_by == 3


@pytest.mark.feature("O3.lease")
async def test_an_approved_plan_waits_while_the_attempt_that_was_given_up_is_heard(lost: Lost) -> None:
    await lost.given_up()
    second = await lost.start(2)
    await lost.take(delivery(second, 2, WAITING))
    await approvals.approve(lost.rows.db, lost.registry, lost.admin, lost.ref.job_id, 2, [lost.ref])
    third = await lost.start(3)
    await lost.runner.heartbeat(lost.ref)
    assert await begin_code(lost.rows.db, third, 0, 2, lost.registry) == "wait"
    await lost.gone(decide.Report("gone"))
    assert await begin_code(lost.rows.db, third, 0, 2, lost.registry) == "begun"


@pytest.mark.feature("O3.doubt")
async def test_a_runner_that_comes_back_ends_the_doubt_only_when_nothing_is_unaccounted_for(lost: Lost) -> None:
    """A rebooted host reported its attempt gone, the doubt was over, and six resources were made twice."""
    await lost.given_up()
    await lost.gone(decide.Report("killed", last=1, is_delivered=True))
    attempt = await lost.attempt()
    assert (attempt.is_in_doubt, attempt.is_gone, attempt.outcome) == (True, True, "lost"), "its engine was cut short"
    await lost.take(delivery(lost.ref, 2, APPLIED))
    await lost.gone(decide.Report("killed", last=3, is_delivered=True))
    assert (await lost.attempt()).is_in_doubt, "the server does not have everything that the runner says it sent"
    await lost.gone(decide.Report("killed", last=2, is_delivered=False))
    assert (await lost.attempt()).is_in_doubt, "the runner says that something is undelivered"
    await lost.gone(decide.Report("killed", last=2, is_delivered=True))
    assert not (await lost.attempt()).is_in_doubt
    second = await lost.start(2)
    assert await begin_code(lost.rows.db, second, 0, registry=lost.registry) == "begun"


@pytest.mark.feature("J2.terminal", "O3.fenced")
async def test_the_late_result_of_a_fenced_attempt_changes_nothing_but_ends_the_doubt(lost: Lost) -> None:
    await lost.given_up()
    record, received = state(1)
    await lost.take(delivery(lost.ref, 2, record, received={2: received}))
    await lost.take(delivery(lost.ref, 3, APPLIED, fact(Result("SUCCEEDED"))))
    assert (await lost.job()).status == "QUEUED"
    attempt = await lost.attempt()
    assert (attempt.outcome, attempt.is_in_doubt, attempt.is_gone) == ("lost", False, True)
    adopted = await lost.rows.db.read(lambda tx: states.current(tx, lost.module))
    assert adopted is not None, "nobody else wrote since its begin, and nothing mutates: it is taken over by itself"
    notes = await lost.rows.db.read(lambda tx: attempt_store.notes(tx, lost.ref.job_id))
    assert "SUCCEEDED" in notes[0].text


@pytest.mark.feature("O3.requeued")
async def test_the_reason_of_an_executor_that_was_interrupted_has_the_cause_that_its_runner_reports(lost: Lost) -> None:
    """Symptom: an evicted pod was only "told to end by SIGTERM (the host is shutting down, or its service was stopped)"."""
    await lost.take(delivery(lost.ref, 2, APPLIED, fact(Result("CANCELED", "told to end by SIGTERM"))))
    assert (await lost.job()).status == "QUEUED"
    for _ in range(2):  # a report that is not acknowledged is repeated
        await lost.gone(decide.Report("the pod was evicted", last=3, is_delivered=True))
    attempt = await lost.attempt()
    assert (attempt.outcome, attempt.reason) == ("gone", "told to end by SIGTERM: the pod was evicted")
    assert not attempt.is_in_doubt


@pytest.mark.feature("J2.terminal")
async def test_a_cause_that_is_reported_late_does_not_change_the_reason_of_an_attempt_that_succeeded(
    lost: Lost,
) -> None:
    await lost.take(delivery(lost.ref, 2, APPLIED, fact(Result("SUCCEEDED"))))
    before = await lost.attempt()
    await lost.gone(decide.Report("the pod was evicted", last=3, is_delivered=True))
    assert await lost.attempt() == before


@pytest.mark.feature("J9.modes", "O3.requeued")
async def test_a_canceled_job_that_is_lost_is_canceled_where_it_would_be_requeued_and_the_doubt_stays(
    lost: Lost,
) -> None:
    await lost.step()
    await service.cancel(lost.rows.db, lost.admin, lost.ref.job_id, "kill")
    assert (await lost.job()).status == "PROCESSING"
    lost.clock.advance(HOUR_SECONDS)
    await lost.step()
    assert (await lost.job()).status == "CANCELED"
    assert (await lost.attempt()).is_in_doubt


@pytest.mark.feature("O6.blameless")
async def test_nobody_is_given_up_because_the_server_was_away_for_longer_than_the_lease(lost: Lost) -> None:
    await lost.step()
    lost.clock.advance(HOUR_SECONDS)
    lost.time += 3600  # nobody looked for an hour
    await lost.step()
    attempt = await lost.attempt()
    assert attempt.ended_at is None, "after a gap everybody has a full period to be heard in"
    assert attempt.lost_at is not None, "but nobody has heard it"
    for _ in range(62):
        await lost.step()
    assert (await lost.attempt()).outcome == "lost"


@pytest.mark.feature("O3.lost")
async def test_an_attempt_that_came_and_went_while_nobody_looked_is_lost_anew(lost: Lost) -> None:
    """It was fenced at once: the lease still ran from its first loss."""
    await lost.step()
    lost.clock.advance(HOUR_SECONDS)
    await lost.runner.heartbeat(lost.ref)
    lost.clock.advance(300)
    before = await lost.attempt()
    await lost.step()
    after = await lost.attempt()
    assert before.lost_at is not None
    assert after.lost_at is not None
    assert after.ended_at is None
    assert after.lost_at > before.lost_at


@pytest.mark.feature("O3.lost")
async def test_a_repeated_begin_of_a_lost_attempt_is_a_sign_of_life(lost: Lost) -> None:
    """A reaper that had read it as silent fenced it just after it was told `begun` again, and it began to change things."""
    await lost.step()
    lost.clock.advance(HOUR_SECONDS)
    stale = lost_attempts.last_contact(
        lost.registry, await lost.attempt(), (await lost.attempt()).claimed_at + timedelta(hours=3)
    )
    assert await begin_code(lost.rows.db, lost.ref, 0, registry=lost.registry) == "begun"
    await service.settle(lost.rows.db, lost.ref, lambda job, attempt, now: decide.lost(job, attempt, stale, now))
    attempt = await lost.attempt()
    assert attempt.ended_at is None, "its lease is over only when it has run out once more"


@pytest.mark.feature("O3.lease", "O6.blameless")
async def test_a_person_may_give_up_what_was_lost_before_the_server_started_again(lost: Lost) -> None:
    """For a minute after each start the answer was that the attempt is heard, which nobody had."""
    await lost.step()
    restarted = Registry()
    await lost_attempts.give_up(lost.rows.db, restarted, lost.admin, lost.ref.job_id, 1)
    assert (await lost.attempt()).is_in_doubt


@pytest.mark.feature("J15.kept", "O3.fenced")
async def test_nothing_is_taken_over_by_itself_beside_a_state_in_quarantine(lost: Lost) -> None:
    """Whoever adopted the older one afterwards would undo the newer."""
    await lost.given_up()
    for number, (serial, lineage) in enumerate([(1, "a"), (2, "b"), (3, "a")], 2):
        record, received = state(serial, lineage)
        await lost.take(delivery(lost.ref, number, record, received={number: received}))
    rows = await lost.rows.db.read(lambda tx: tx.all("SELECT status FROM states ORDER BY serial"))
    assert [row["status"] for row in rows] == ["current", "quarantined", "quarantined"]


@pytest.mark.feature("O3.fenced")
async def test_one_attempt_that_cannot_be_read_does_not_hide_the_losses_behind_it(lost: Lost) -> None:
    """The reaper stopped at the first attempt that raised, and every loss behind it was never found."""
    rows = lost.rows
    broken = await rows.job(await rows.module(), kind="APPLY")
    await lost.runner.has(broken)
    await change_jobs(rows.db, broken, source="nonsense")
    behind = await rows.job(await rows.module())
    await lost.runner.has(behind)
    lost.clock.advance(HOUR_SECONDS)
    for _ in range(2):
        await lost.step()
    assert (await lost.attempt()).lost_at is not None
    assert (await rows.load(behind)).attempt == 2


@pytest.mark.feature("O6.database")
async def test_a_connection_that_breaks_while_an_attempt_is_judged_is_no_fault_of_the_attempt(
    lost: Lost, caplog: pytest.LogCaptureFixture
) -> None:
    """The traceback of a lost connection was logged as an attempt that cannot be judged."""
    broken = Faulty(lost.rows.db, Cut())
    broken.faults.append("before")
    with pytest.raises(Unavailable):
        await Reaper(broken, lost.registry, decide.APPLY_LEASE).step()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []
