"""What an engine has made is made a second time only after a person has looked (rule 9)."""

import json

import msgspec
import pytest

from terracrew.api.jobs import Job
from terracrew.api.lost_resources import LoggedChange
from terracrew.errors import Conflict
from terracrew.protocol.events import Result, StepStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals, attempt_store, decide, service
from terracrew.server.jobs.attempts import reads, received_states
from terracrew.server.jobs.lost_resources import log_lines
from terracrew.server.runs import attempt_report
from terracrew.server.state.model import Received
from tests.builders.deliveries import delivery, fact, log, state
from tests.builders.job_rows import begin_code, change_attempts, change_modules
from tests.server.hub.hub_clients import on_postgres
from tests.server.jobs.changes import Change
from tests.server.jobs.waiting_jobs import waiting

ENDED = fact(StepStatus(Step.APPLY, "FAILED", 1))
KILLED = fact(StepStatus(Step.APPLY, "FAILED", -9, is_cut_short=True))
FAILED = fact(Result("FAILED", "apply failed: ended by signal 9"))


@pytest.mark.feature("O3.doubt")
async def test_an_engine_that_was_killed_with_its_executor_leaves_the_module_in_doubt(change: Change) -> None:
    """The attempt was reported gone, attempt 2 applied by itself, and six resources were made twice."""
    await change.gone(last=change.next - 1)
    attempt = await change.attempt()
    assert (attempt.outcome, attempt.is_gone, attempt.is_in_doubt) == ("gone", True, True)
    assert (await change.job()).status == "QUEUED"
    assert await change.code(await change.start(2)) == "approval"


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize(("missing", "is_delivered"), [(6, True), (0, False), (None, True)])
async def test_a_report_that_leaves_events_unaccounted_for_leaves_the_module_in_doubt(
    change: Change, missing: int | None, is_delivered: bool
) -> None:
    """A proxy refused the upload of a state, the runner said `gone`, and the apply was repeated five times."""
    await change.tell(ENDED)
    last = None if missing is None else change.next - 1 + missing
    await change.gone(last=last, is_delivered=is_delivered)
    assert (await change.attempt()).is_in_doubt, "the server trusts only its own mark"


@pytest.mark.feature("O3.requeued")
async def test_an_engine_that_ended_by_itself_with_everything_delivered_is_requeued_unasked(change: Change) -> None:
    await change.write(1)
    await change.tell(ENDED)
    await change.gone(last=change.next - 1)
    assert not (await change.attempt()).is_in_doubt
    assert await change.code(await change.start(2)) == "begun"


@pytest.mark.feature("J15.kept", "O3.doubt")
async def test_an_errored_state_proves_that_the_engine_ended_by_itself(change: Change) -> None:
    await change.write(1, "errored")
    await change.gone(last=change.next - 1)
    assert not (await change.attempt()).is_in_doubt


@pytest.mark.feature("J15.kept", "O3.doubt")
async def test_an_errored_state_does_not_have_what_a_killed_provider_made(change: Change) -> None:
    """The engine ended by itself and left its state. What its provider had made and not reported was made again unasked."""
    await change.write(1, "errored")
    await change.tell(fact(StepStatus(Step.APPLY, "FAILED", 1, is_cut_short=True)), FAILED)
    assert (await change.attempt()).is_in_doubt


@pytest.mark.feature("J15.own", "J15.kept", "O3.doubt")
async def test_an_errored_state_of_a_module_with_its_own_backend_proves_nothing_and_is_quarantined(
    change: Change,
) -> None:
    """It became the current state, which no engine of the module reads, and the apply was repeated unasked."""
    await change_modules(change.rows.db, backend="own")
    await change.write(1, "errored")
    await change.tell(ENDED)
    await change.gone(last=change.next - 1)
    assert (await change.attempt()).is_in_doubt
    (kept,) = await change.rows.db.read(lambda tx: tx.all("SELECT status, version, problem FROM states"))
    assert (kept["status"], kept["version"]) == ("quarantined", None)
    assert kept["problem"] == "the module's own backend did not accept it: push it there, and then discard it here"


@pytest.mark.feature("O3.doubt")
async def test_an_engine_that_was_killed_while_its_executor_lived_leaves_the_module_in_doubt(change: Change) -> None:
    """`is_in_doubt: false`, `may_miss_state: false`, the lock free: the next apply made 31 resources again unasked."""
    await change.tell(KILLED, FAILED)
    assert (await change.job()).status == "FAILED"
    attempt = await change.attempt()
    assert (attempt.outcome, attempt.is_in_doubt) == ("failed", True)
    assert (await change.rows.db.read(lambda tx: attempt_report.report(tx, change.job_id, 1))).may_miss_state
    other = await change.rows.job(change.module, kind="APPLY")
    assert await change.code(await change.start(1, other)) == "approval"


@pytest.mark.feature("O3.doubt")
async def test_a_cancel_that_kills_the_engine_leaves_the_module_in_doubt(change: Change) -> None:
    await service.cancel(change.rows.db, change.admin, change.job_id, "kill")
    killed = fact(StepStatus(Step.APPLY, "CANCELED", -9, is_cut_short=True))
    await change.tell(killed, fact(Result("CANCELED", "canceled during apply")))
    assert (await change.job()).status == "CANCELED"
    assert (await change.attempt()).is_in_doubt


@pytest.mark.feature("O3.doubt")
async def test_a_result_without_any_end_of_the_change_leaves_the_module_in_doubt(change: Change) -> None:
    """The executor's own code failed: nobody knows what its engine did."""
    await change.tell(fact(Result("FAILED", "the executor failed: KeyError")))
    assert (await change.attempt()).is_in_doubt


@pytest.mark.feature("O3.doubt")
async def test_a_change_that_was_never_started_leaves_no_doubt(change: Change) -> None:
    await service.cancel(change.rows.db, change.admin, change.job_id, "after_step")
    await change.tell(fact(StepStatus(Step.APPLY, "SKIPPED")), fact(Result("CANCELED", "canceled before apply")))
    assert not (await change.attempt()).is_in_doubt


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize("is_ended", [True, False])
async def test_an_attempt_that_ends_canceled_though_nobody_asked_is_lost(change: Change, is_ended: bool) -> None:
    """A reboot ended the job CANCELED, with no `cancel_mode` and nobody in the audit."""
    stopped = fact(Result("CANCELED", "stopped during apply: the executor was told to end by SIGTERM"))
    await change.tell(ENDED if is_ended else KILLED, stopped)
    job, attempt = await change.job(), await change.attempt()
    assert (job.status, job.attempt, job.losses) == ("QUEUED", 2, 1)
    assert (attempt.outcome, attempt.has_result, attempt.is_in_doubt) == ("gone", True, not is_ended)
    assert "SIGTERM" in attempt.reason


@pytest.mark.feature("O3.doubt")
@pytest.mark.parametrize("missing", [0, 2])
async def test_where_making_it_twice_does_no_harm_only_an_undelivered_state_is_asked_about(
    database: Database, missing: int
) -> None:
    change = await Change.begun(database, "retry")
    await change.gone(last=change.next - 1 + missing)
    assert (await change.attempt()).is_in_doubt == bool(missing)
    assert await change.code(await change.start(2)) == ("approval" if missing else "begun")


@pytest.mark.feature("J15.kept", "O3.fenced")
async def test_a_state_with_a_changed_lineage_is_quarantined_even_from_the_current_attempt(change: Change) -> None:
    """A stale errored.tfstate of the source, with somebody else's lineage, replaced the real state."""
    await change.write(1)
    await change.write(2, lineage="somebody-elses")
    rows = await change.rows.db.read(lambda tx: tx.all("SELECT serial, status FROM states ORDER BY serial"))
    assert [(row["serial"], row["status"]) for row in rows] == [(1, "current"), (2, "quarantined")]


# ---- approvals apply to what was seen


async def _waits(change: Change, job_id: str, attempt: int) -> AttemptRef:
    """A plan of this job waits for a person."""
    ref = await change.start(attempt, job_id)
    assert await change.code(ref) == "approval"
    module = await change.rows.db.read(lambda tx: received_states.module_facts(tx, change.module))
    await change.take(delivery(ref, 2, waiting(module.state_version)))
    return ref


async def _approve(change: Change, ref: AttemptRef, *seen: AttemptRef) -> Job:
    return await approvals.approve(change.rows.db, change.registry, change.admin, ref.job_id, ref.attempt, list(seen))


@pytest.mark.feature("J8.needed", "O3.doubt")
async def test_an_approval_names_the_doubts_that_its_reader_saw(change: Change) -> None:
    """A page that was opened before a fence approved after it."""
    await change.gone(last=change.next - 1)
    second = await _waits(change, change.job_id, 2)
    with pytest.raises(Conflict, match="in doubt for a reason that this approval does not name"):
        await _approve(change, second)
    assert (await _approve(change, second, change.ref)).status == "QUEUED"


@pytest.mark.feature("J8.needed", "O3.doubt")
async def test_the_audit_of_an_approval_names_the_doubts_that_there_were(change: Change) -> None:
    """Whatever list the caller sent was written into the audit, with attempts in it that do not exist."""
    await change.gone(last=change.next - 1)
    second = await _waits(change, change.job_id, 2)
    await _approve(change, second, change.ref, AttemptRef("job_invented", 7))
    row = await change.rows.db.read(lambda tx: tx.one("SELECT details FROM audit WHERE action = 'job.approve'"))
    assert row is not None
    assert json.loads(row["details"])["doubts"] == [{"job_id": change.job_id, "attempt": 1}]


@pytest.mark.feature("J8.same", "O3.doubt")
async def test_a_plan_whose_state_has_moved_cannot_be_approved_and_is_made_again(change: Change) -> None:
    """`job approve 1` showed "2 to add", planned again and applied "1 add, 1 change, 1 destroy"."""
    await change.gone(last=change.next - 1)
    other = await change.rows.job(change.module, kind="APPLY")
    first = await _waits(change, change.job_id, 2)
    second = await _waits(change, other, 1)
    await _approve(change, second, change.ref)
    ref = await change.start(2, other)
    assert await begin_code(change.rows.db, ref, 0, 1, change.registry) == "begun"
    record, received = state(1)
    received = Received(received.fact, change.sealed(ref, 2), None)
    applied = fact(StepStatus(Step.APPLY, "SUCCEEDED", 0))
    await change.take(delivery(ref, 2, record, applied, fact(Result("SUCCEEDED")), received={2: received}))
    with pytest.raises(Conflict, match="has changed since"):
        await _approve(change, first)
    after = await approvals.replan(change.rows.db, change.admin, change.job_id, 2)
    assert (after.status, after.attempt, after.plan_attempt) == ("QUEUED", 3, None)
    third = await change.start(3)
    assert await change.code(third) == "approval", "nobody has seen this plan, and the doubt is over"


@on_postgres
@pytest.mark.feature("J8.needed", "O3.doubt")
async def test_a_fence_that_began_before_an_approval_and_ended_after_it_is_asked_about(database: Database) -> None:
    """Its time was earlier than that of the approval, which counted although its giver could not have seen the fence."""
    change = await Change.begun(database)
    await change.gone(last=change.next - 1)
    second = await _waits(change, change.job_id, 2)
    await _approve(change, second, change.ref)
    other = await change.rows.job(change.module, kind="APPLY")
    third = await change.start(3)
    sql = """INSERT INTO attempts (job_id, number, runner_id, instance_id, hub_sha256, api_sha256, state_key, claimed_at,
            begun_at, begun_state_version, ended_at, outcome, is_gone, is_in_doubt)
        VALUES (:job_id, 9, 'rnr_1', 'ins_1', 'x', 'x', CAST('x' AS bytea), :at, :at, 0, :at, 'lost', true, true)"""
    await database.write(lambda tx: tx.run(sql, job_id=other, at=tx.now - 60))
    assert await begin_code(database, third, 0, 2, change.registry) == "approval"


@pytest.mark.feature("J8.same")
async def test_a_job_whose_plan_was_approved_and_that_plans_again_asks_again(change: Change) -> None:
    await change.gone(last=change.next - 1)
    second = await _waits(change, change.job_id, 2)
    await _approve(change, second, change.ref)
    third = await change.start(3)
    await change_attempts(change.rows.db, is_in_doubt=False)
    assert await change.code(third) == "approval", "it planned again, for whatever reason"


@pytest.mark.feature("J8.needed", "O3.doubt")
@pytest.mark.parametrize("is_reported", [True, False], ids=["its executor reports it", "its runner reports it"])
async def test_doubts_come_back_if_the_change_that_was_approved_with_them_is_cut_short(
    change: Change, is_reported: bool
) -> None:
    """The next approver was told of the second attempt alone, which had made nothing, and six resources were made again."""
    await change.gone(last=change.next - 1)
    third = await _begun(change)
    assert await _doubts(change) == []
    if is_reported:
        await change.take(delivery(third, 2, KILLED, FAILED))
    else:
        await change.rows.gone(third, decide.Report("the executor was ended by signal 9", 1, is_delivered=True))
    assert await _doubts(change) == [change.ref, third]
    # After its own report the job has failed, so the next one is asked about; otherwise it continues itself.
    job, number = (await change.rows.job(change.module, kind="APPLY"), 1) if is_reported else (change.job_id, 4)
    waits = await _waits(change, job, number)
    with pytest.raises(Conflict, match="in doubt for a reason that this approval does not name"):
        await _approve(change, waits, third)
    assert (await _approve(change, waits, change.ref, third)).status == "QUEUED"


@pytest.mark.feature("O3.doubt")
async def test_a_doubt_does_not_come_back_after_a_change_that_ended_or_if_its_own_attempt_has_ended_its_change(
    change: Change,
) -> None:
    await change.gone(last=change.next - 1, is_delivered=False)
    third = await _begun(change)
    await change.tell(ENDED)  # late: the disk of the first attempt has come back
    await change.take(delivery(third, 2, KILLED, FAILED))
    assert await _doubts(change) == [third]
    other = await change.rows.job(change.module, kind="APPLY")
    waits = await _waits(change, other, 1)
    await _approve(change, waits, third)
    last = await change.start(2, other)
    assert await begin_code(change.rows.db, last, 0, 1, change.registry) == "begun"
    await change.take(delivery(last, 2, ENDED, FAILED))
    assert await _doubts(change) == []


@pytest.mark.feature("O3.doubt")
async def test_a_doubt_that_comes_back_is_not_ended_by_a_delivery_that_had_begun_before(change: Change) -> None:
    """The delivery had read the attempt without its doubt, and wrote it back like that."""
    await change.gone(last=change.next - 1)
    await _begun(change)
    read = await change.attempt()
    await change.rows.db.write(lambda tx: attempt_store.doubt_again(tx, [change.ref]))
    delivered = msgspec.structs.replace(read, mark=read.mark + 1)
    await change.rows.db.write(lambda tx: attempt_store.save_progress(tx, [(read, delivered)]))
    assert (await change.attempt()).mark == read.mark + 1
    assert await _doubts(change) == [change.ref]


async def _begun(change: Change) -> AttemptRef:
    """An attempt whose plan was approved with the doubt about the first one, and has begun."""
    second = await _waits(change, change.job_id, 2)
    await _approve(change, second, change.ref)
    first_mark = (await change.attempt()).mark
    third = await change.start(3)
    change.next = first_mark + 1
    assert await begin_code(change.rows.db, third, 0, 2, change.registry) == "begun"
    return third


async def _doubts(change: Change) -> list[AttemptRef]:
    rows = await change.rows.db.read(lambda tx: reads.in_doubt(tx, change.module))
    return [AttemptRef(row["job_id"], row["number"]) for row in rows]


# ---- what the next approver is shown


def test_the_log_tells_what_was_made_and_what_was_being_made() -> None:
    lines = """\
terraform_data.paid: Creating...
terraform_data.paid: Provisioning with 'local-exec'...
terraform_data.paid: Creation complete after 0s [id=a1]
module.net["eu"].aws_vpc.main: Modifying... [id=vpc-1]
module.net["eu"].aws_vpc.main: Modifications complete after 1m2s [id=vpc-1]
aws_instance.old[0]: Destroying... [id=i-9]
aws_instance.old[0]: Destruction complete after 3s
terraform_data.slow: Creating...
terraform_data.slow: Still creating... [10s elapsed]
terraform_data.slow (local-exec): other: Creation is what it says""".splitlines()
    assert log_lines.changes(lines) == [
        LoggedChange("terraform_data.paid", "created", "a1"),
        LoggedChange('module.net["eu"].aws_vpc.main', "changed", "vpc-1"),
        LoggedChange("aws_instance.old[0]", "destroyed", "i-9"),
        LoggedChange("terraform_data.slow", "creating"),
    ]


@pytest.mark.feature("O3.doubt", "U5.page")
async def test_the_next_approver_is_shown_how_far_the_change_came(change: Change) -> None:
    """The approver saw a plain "10 to add" and nothing about the apply that was cut off after six."""
    await change.tell(log("a.x: Creation complete after 0s [id=1]\n"))
    await change.write(1)
    await change.tell(log("\x1b[1ma.y: Creation complete after 0s [id=2]\x1b[0m\na.z: Creating...\n"))
    await change.gone(last=change.next - 1)
    (doubt,) = await change.rows.db.read(lambda tx: attempt_report.doubts(tx, change.module))
    assert (doubt.reason, doubt.may_miss_state, doubt.states) == ("the executor was ended by signal 9", True, 1)
    assert doubt.made == [LoggedChange("a.y", "created", "2"), LoggedChange("a.z", "creating")], (
        "a.x is in the state that arrived"
    )
    assert doubt.module_state is not None
    assert (doubt.module_state.serial, doubt.module_state.resources, doubt.module_state.is_own) == (1, 3, True)
