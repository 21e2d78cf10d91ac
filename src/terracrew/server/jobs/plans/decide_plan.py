"""Decides what becomes of a plan that waits for a person: pure functions, as in `decide`, which has the rest of a job's life."""

from datetime import datetime, timedelta
from typing import Literal

from msgspec.structs import replace

from terracrew.api import fields
from terracrew.api.jobs import CHOSEN, Attempt, GivenApproval, Job, JobStatus, Plan, plain
from terracrew.errors import Conflict
from terracrew.protocol.events import KeptPlan
from terracrew.protocol.spec import JobType, Source
from terracrew.server.jobs.decision_types import ModuleFacts
from terracrew.server.jobs.plans import approver_rules
from terracrew.wording import approval_words, plan_words


def saved(job: Job, attempt: Attempt, kept: KeptPlan, now: datetime, why: str) -> Plan:
    """Return the row of a plan that an attempt has saved. `why`: why a person has to look at it."""
    return fields.created(
        Plan,
        kept,
        job_id=job.id,
        attempt=attempt.number,
        inputs_sha256=attempt.inputs_sha256,
        made_at=now,
        decide_by=now + timedelta(seconds=job.approval_seconds),
        why=plain(why),
        made_job_id=job.id,
        made_attempt=attempt.number,
    )


def approve(job: Job, plan: Plan, module: ModuleFacts, given: GivenApproval) -> tuple[Job, Plan]:
    """Add an approval of this plan and of the doubts that it names. With enough of them the job continues, as a new attempt.

    An earlier approval does not count if its giver has not seen a doubt that the module has now, or may not approve any more.
    """
    decided = _decided(job, plan, given.at, "approved", given.by, "")
    if is_stale(plan, module):
        raise Conflict(
            f"the state of the module has changed since attempt {plan.attempt} of job {job.number} made this plan: "
            "let the job plan again, and look at the new plan",
            plan=plan.attempt,
        )
    doubts = [doubt.ref for doubt in module.doubts]
    if unseen := [ref for ref in doubts if ref not in given.doubts]:
        raise Conflict(
            "the module is in doubt for a reason that this approval does not name: "
            f"attempt {unseen[0].attempt} of {unseen[0].job_id} was cut short. Look at what is known of it, and approve again",
            doubts=unseen,
        )
    counted = approver_rules.informed(plan.approvals, doubts, module.approvers)
    others = [each for each in counted if each.by_id != given.by_id and each.by_id not in module.approvers.lapsed]
    approvals = [*others, given]
    before = approver_rules.distinct(others, module.approvers)
    people = approver_rules.distinct(approvals, module.approvers)
    missing = approver_rules.missing(approvals, module.min_approvals, module.approvers)
    if missing <= 0:
        decided = replace(decided, doubts=doubts, approvals=approvals)
        return job.to(JobStatus.QUEUED, given.at, plan_attempt=plan.attempt, plan=job.plan), decided
    more = approval_words.missing(missing)
    if any(each.by_id == given.by_id for each in counted):
        raise Conflict(f"you have approved this plan already: {more}")
    if len(people) == len(before):
        raise Conflict(f"{approver_rules.shared(given, others, module.approvers)}: {more}")
    return job, replace(plan, approvals=approvals)


def refusal_to_apply(job: Job, plan: Plan | None, *, state_version: int, source: Source, now: datetime) -> str | None:
    """Return why another job cannot apply the plan of this one; None if it can, unless inputs have changed.

    `state_version` and `source` are those that its module has now.
    """
    name, again = f"the plan of job {job.number}", "plan again, and look at the new plan"
    if job.type is not JobType.PLAN:
        return f"job {job.number} is {job.type}: only the plan of a PLAN can be applied by another job"
    if job.status is not JobStatus.SUCCEEDED:
        return f"job {job.number} is {job.status}, so it has no plan that can be applied"
    if job.is_refresh_only:
        return (
            f"{name} only shows what was changed outside of the engine: apply the module, which makes a plan of its own"
        )
    if not plan_words.has_changes(job.plan):
        return f"{name} changes nothing, so there is nothing to apply"
    if plan is None:
        return f"{name} was not saved, as its log says: {again}"
    if plan.taken_by:
        return f"another job applies {name}"
    if plan.decision == "declined":
        return f"{plan.decided_by} has discarded {name}: {again}"
    if plan.state_version != state_version:
        return f"the state of the module has changed since {name} was made: {again}"
    if not job.has_own_source and job.source != source:
        return f"the source of the module has changed since {name} was made: {again}"
    if now >= plan.decide_by or not plan.is_kept:
        return f"{name} is no longer kept: {again}"
    return None


def choose(job: Job, planned: Job, plan: Plan, why: str) -> tuple[Job, Plan]:
    """Let a new job wait with the plan of a PLAN job, as if an attempt before its first one had made it.

    It runs what that job ran: the same commit, and the same version of the engine.
    """
    waiting = replace(
        job,
        status=JobStatus.AWAITING_APPROVAL,
        attempt=0,
        plan_attempt=CHOSEN,
        plan=planned.plan,
        cost=planned.cost,
        source_digest=planned.source_digest,
        source_description=planned.source_description,
        source_commit=planned.source_commit,
        source_revision=planned.source_revision,
        source_moved_from=planned.source_moved_from,
        engine_version=planned.pinned_engine_version,
        pinned_engine_version=planned.pinned_engine_version,
    )
    return waiting, replace(plan, job_id=job.id, attempt=CHOSEN, why=plain(why))


def accept(job: Job, plan: Plan, by: str, now: datetime) -> tuple[Job, Plan]:
    """Let a job continue with a plan that it was created to apply, and that nobody has to approve."""
    decided = _decided(job, plan, now, "approved", by, "")
    return job.to(JobStatus.QUEUED, now, plan_attempt=plan.attempt, plan=job.plan), decided


def is_stale(plan: Plan, module: ModuleFacts) -> bool:
    """Return whether the state that a plan was made from is no longer the current one."""
    return plan.state_version != module.state_version


def replan(job: Job, plan: Plan, by_id: str, now: datetime, imports_chosen_by: str = "") -> Job:
    """Replace this plan by a new one, which waits for approval, too. This one is never applied.

    They count as somebody who queued the job: the new plan is made because they want it.
    """
    _check_waits_with(job, plan)
    chosen_by = imports_chosen_by or job.imports_chosen_by
    again = sorted({*job.replanned_by, by_id})
    return job.to(JobStatus.QUEUED, now, imports_chosen_by=chosen_by, replanned_by=again)


def decline(job: Job, plan: Plan, by: str, reason: str, now: datetime) -> tuple[Job, Plan]:
    decided = _decided(job, plan, now, "declined", by, reason)
    why = f"declined by {by}" + (f": {plain(reason)}" if reason else "")
    return job.to(JobStatus.DECLINED, now, message=why), decided


def expire(job: Job, plan: Plan, now: datetime) -> Job | None:
    """Decline a plan that nobody has decided about in time."""
    if job.status is not JobStatus.AWAITING_APPROVAL or job.plan_attempt != plan.attempt or now < plan.decide_by:
        return None
    return job.to(JobStatus.DECLINED, now, message="nobody approved its plan in time")


def _decided(
    job: Job, plan: Plan, now: datetime, decision: Literal["approved", "declined"], by: str, reason: str
) -> Plan:
    _check_waits_with(job, plan)
    if now >= plan.decide_by:
        raise Conflict(f"the time to decide about this plan of job {job.number} is over", decide_by=plan.decide_by)
    return replace(plan, decision=decision, decided_by=by, decided_at=now, reason=plain(reason))


def _check_waits_with(job: Job, plan: Plan) -> None:
    if job.status is not JobStatus.AWAITING_APPROVAL:
        raise Conflict(f"job {job.number} is not waiting for approval: it is {job.status}", status=job.status)
    if job.plan_attempt != plan.attempt:
        raise Conflict(
            f"the plan of attempt {plan.attempt} is no longer the one that job {job.number} waits with: look at the new one",
            plan=job.plan_attempt,
        )


def is_resumable(plan: Plan, *, state_version: int, inputs_sha256: str) -> bool:
    """Return whether a job can continue with this plan. Otherwise it makes a new plan, which needs its own approval."""
    is_unused = plan.decision == "approved" and plan.applied_by is None
    return is_unused and (plan.state_version, plan.inputs_sha256) == (state_version, inputs_sha256)
