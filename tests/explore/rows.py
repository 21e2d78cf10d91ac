"""From the explorer's records to the rows that the decisions are made about, and back."""

from datetime import UTC, datetime, timedelta

from terracrew.api import jobs as model
from terracrew.api.jobs import JobStatus
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType, LocalSource
from terracrew.server.jobs import decide
from tests.explore.world import LATER, NO, NOW, OLD, UNKNOWN, UNSURE, Job, Plan, Try

EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
THIS_MOMENT = EPOCH + LATER * HOUR
LOST = EPOCH + 50 * HOUR
LEASE = THIS_MOMENT - LOST
"""Of whatever is declared lost, the lease is just over: what asks for it, asks in the moment in which it runs out."""
SILENT = decide.LastContact(LOST - HOUR, is_closed=True)
HEARD_SINCE_LOST = decide.LastContact(LOST + HOUR, is_closed=True)
HEARD = decide.LastContact(THIS_MOMENT, is_closed=False)
VERSIONS = {NO: None, OLD: 1, NOW: 2, UNSURE: model.UNKNOWN_VERSION}
_VERSION = {version: name for name, version in VERSIONS.items()}
_SOURCE = LocalSource("/")


def job_row(index: int, job: Job) -> model.Job:
    return model.Job(
        id=f"job_{index}",
        organization_id="org",
        module_id="mod",
        number=index + 1,
        type=JobType.APPLY,
        priority=0,
        status=JobStatus(job.status),
        attempt=job.attempt,
        source=_SOURCE,
        created_by="somebody",
        created_at=EPOCH,
        queued_at=EPOCH,
        needs_approval=job.needs_approval,
        plan_attempt=job.plan.attempt if job.plan else None,
        cancel_mode="interrupt" if job.is_canceled else None,
        interrupted="retry" if job.is_retried else "ask",
    )


def attempt_row(it: Try) -> model.Attempt:
    assert it.outcome != UNKNOWN, "the database has no row of it"
    return model.Attempt(
        job_id=f"job_{it.job}",
        number=it.number,
        runner_id=f"rnr_{it.runner}",
        instance_id=f"ins_{it.runner}",
        claimed_at=EPOCH,
        mark=it.mark,
        started_at=EPOCH if it.is_started else None,
        begun_at=None if it.begun == NO else EPOCH,
        begun_state_version=VERSIONS[it.begun],
        ended_at=EPOCH + it.fenced * HOUR if it.outcome else None,
        outcome=it.outcome or None,
        is_gone=it.is_gone,
        lost_at=LOST if it.lost else None,
        is_in_doubt=it.fenced > 0,
        is_change_ended=it.is_change_ended,
        has_result=it.has_result,
        may_have_begun=it.may_have_begun,
    )


def ref(it: Try) -> AttemptRef:
    return AttemptRef(f"job_{it.job}", it.number)


def plan_row(index: int, plan: Plan) -> model.Plan:
    return model.Plan(
        job_id=f"job_{index}",
        attempt=plan.attempt,
        state_version=VERSIONS[plan.version] or 0,
        inputs_sha256="",
        path="",
        sha256="",
        size=0,
        made_at=EPOCH,
        decide_by=THIS_MOMENT + HOUR,
        decision="approved" if plan.decided else None,
        decided_at=EPOCH + plan.decided * HOUR if plan.decided else None,
        approvals=[model.GivenApproval("usr_1", "somebody", EPOCH)] if plan.decided else [],
        applied_by=1 if plan.is_applied else None,
    )


def job_of(was: Job, row: model.Job, plan: model.Plan | None, runner: int) -> Job:
    """`plan` is one that was changed or made; otherwise the job has the one that it had, or none."""
    kept = was.plan if was.plan and was.plan.attempt == row.plan_attempt else None
    if plan is not None and row.plan_attempt == plan.attempt:
        decided = 0 if plan.decided_at is None else round((plan.decided_at - EPOCH) / HOUR)
        maker = was.plan.runner if was.plan and was.plan.attempt == plan.attempt else runner
        kept = Plan(plan.attempt, maker, _VERSION[plan.state_version], decided, plan.applied_by is not None)
    has_waited = was.has_waited or (plan is not None and not row.needs_approval)
    return Job(
        row.status.value,
        row.attempt,
        row.needs_approval,
        row.cancel_mode is not None,
        kept,
        was.seen,
        has_waited,
        was.is_retried,
    )


def row_of(was: Try, row: model.Attempt) -> dict[str, object]:
    fenced = (was.outcome and was.fenced) or LATER
    lost = 0 if row.lost_at is None else was.lost if row.lost_at == LOST else 1
    return {
        "is_started": row.started_at is not None,
        "begun": _VERSION[row.begun_state_version],
        "outcome": row.outcome or "",
        "is_gone": row.is_gone,
        "lost": 0 if row.outcome else lost,
        "fenced": fenced if row.is_in_doubt else 0,
        "is_change_ended": row.is_change_ended,
        "has_result": row.has_result,
        "may_have_begun": row.may_have_begun,
    }
