"""Decides what becomes of a job: pure functions from the current state and an event to the next state.

Services load, call one of these functions, and save by compare-and-set; only `set_back/decisions` decides beside them. None means
that nothing changes. `tests/explore` runs these functions through every order of events within its bounds, so it checks every change here.
"""

from datetime import datetime, timedelta
from typing import Literal, TypeAlias

from msgspec.structs import replace

from terracrew.api.jobs import UNKNOWN_VERSION, Attempt, Job, JobStatus, Outcome, Plan, plain
from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.events import KeptPlan, Result, StepStatus
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import MUTATING, STEPS_OF, JobType
from terracrew.server.jobs.decision_types import ClaimContext, Decision, LastContact, ModuleFacts, Report
from terracrew.server.jobs.plans import approver_rules, decide_plan
from terracrew.server.jobs.plans.destruction import reason_to_ask
from terracrew.wording import plan_words

MAX_LOSSES = 5
CLOSED_FOR = timedelta(seconds=10)
SILENT_FOR = timedelta(seconds=60)
MIN_CHANGE = timedelta(minutes=3)
"""A change does not begin if its runner ends sooner than this."""
APPLY_LEASE = timedelta(minutes=30)
CONNECT_WITHIN = timedelta(minutes=10)
"""How long an executor that runs may take to connect for the first time."""
LATE_DELIVERY = timedelta(days=7)
HELD_LOCK = "its engine was killed, so the lock of the module's own backend may still be held"

Refusal: TypeAlias = Literal[
    "state_moved",
    "quarantine",
    "held",
    "superseded",
    "canceled",
    "approval",
    "wait",
    "plan_changed",
    "leaving",
    "policy",
]
_STRENGTH: dict[CancelMode | None, int] = {None: 0, "after_step": 1, "interrupt": 2, "kill": 3}
_OUTCOMES: dict[str, Outcome] = {"SUCCEEDED": "succeeded", "FAILED": "failed", "CANCELED": "canceled"}


def is_current(job: Job, attempt: Attempt) -> bool:
    return job.is_active and job.attempt == attempt.number and attempt.ended_at is None


# ---- the normal course of an attempt


def claim(
    job: Job,
    number: int,
    seat: ClaimContext,
    now: datetime,
    *,
    is_module_busy: bool,
    is_first_of_module: bool,
    has_quarantine: bool,
    made_by: str | None,
    is_module_held: bool = False,
    is_module_locked: bool = False,
) -> Decision | None:
    """Make an instance the owner of a job (rule 1). The statement in `claims` is the same in SQL; a test compares the two.

    `is_first_of_module`: no other queued job of the module comes first by `turn_in_module` (rule 11).
    `made_by` is the runner that made the plan that the job continues with: only that runner may claim it while it exists,
    serves the module, and the plan's state is current. Otherwise any runner may claim the job and makes a new plan.
    `is_module_locked`: a person holds the lock of the module, so it is not free (rule 7).
    """
    if is_module_locked:
        return None
    if job.status is not JobStatus.QUEUED or job.attempt != number or is_module_busy or has_quarantine:
        return None
    if not is_first_of_module:
        return None
    if not (seat.is_connected and seat.takes_jobs and seat.free > 0 and seat.is_selected and seat.has_valid_credential):
        return None
    if made_by not in (None, seat.runner_id):
        return None
    if is_module_held and MUTATING & set(STEPS_OF[job.type]):
        return None
    owner = {"runner_id": seat.runner_id, "instance_id": seat.instance_id, "claimed_at": now}
    return Decision(
        job.to(JobStatus.CLAIMED, now, **owner), Attempt(job.id, number, seat.runner_id, seat.instance_id, now)
    )


def start(job: Job, attempt: Attempt, now: datetime) -> Decision | None:
    """Note the first contact with the attempt's executor."""
    if not is_current(job, attempt) or job.status is not JobStatus.CLAIMED:
        return None
    return Decision(job.to(JobStatus.PROCESSING, now, started_at=now), replace(attempt, started_at=now, reason=""))


def begin(
    job: Job,
    attempt: Attempt,
    module: ModuleFacts,
    state_version: int,
    plan: Plan | None,
    now: datetime,
    *,
    has_waited: bool,
    plan_sha256: str,
    ends_at: datetime | None = None,
) -> Decision | Refusal | None:
    """Permit an apply (rule 4). None means that the attempt already has the permit. `plan` is the saved plan that it names.

    `has_waited`: a plan of this job has waited for a person before. Every later plan of it does, too: the person who
    approved the first one has not seen the others. That includes the plan of a PLAN job that it was created to apply, which needs
    an approval only if there is another reason. `plan_sha256`: the hash of the plan that is going to be applied. A saved plan with
    another hash is not the one that was approved. `ends_at`: when the attempt ends with its runner at the latest. A change that is
    likely to be cut short by that does not begin.
    """
    if not is_current(job, attempt):
        return "superseded"
    if not MUTATING & set(STEPS_OF[job.type]):
        raise Forbidden(f"a {job.type} changes nothing, so it needs no permission to apply")
    if plan is not None and plan.plan_sha256 != plan_sha256:
        return "plan_changed"
    if attempt.begun_at is not None:
        if attempt.begun_state_version != state_version:
            return "state_moved"
        # The request proves contact. A reaper that found the attempt silent a moment ago must not fence it while it has a permit.
        return None if attempt.lost_at is None else Decision(job, replace(attempt, lost_at=None))
    if job.cancel_mode is not None:
        return "canceled"
    if module.is_held:
        return "held"
    if module.has_quarantine:
        return "quarantine"
    if state_version != module.state_version:
        return "state_moved"
    if module.stops:
        return "policy"
    if plan is not None and not _is_usable(job, plan, state_version):
        return "approval"
    is_chosen = plan is not None and plan.is_chosen
    is_asked = bool(reasons_to_ask(job, module, has_waited=has_waited and not is_chosen))
    if (is_asked or (plan is not None and not is_chosen)) and not is_approved(plan, module):
        return "approval"
    if any(doubt.is_in_contact for doubt in module.doubts):
        return "wait"
    if ends_at is not None and ends_at - now < MIN_CHANGE:
        return "leaving"
    begun = replace(attempt, begun_at=now, begun_state_version=state_version)
    used = None if plan is None else replace(plan, applied_by=attempt.number)
    return Decision(job, begun, plan=used, ends_doubt=bool(module.doubts) and not job.is_partial)


def reasons_to_ask(job: Job, module: ModuleFacts, *, has_waited: bool) -> list[str]:
    """Return why a person must look at the plan that the job has now, the most serious reason first; empty if nobody must."""
    found: list[str] = []
    if any(not doubt.is_set_back for doubt in module.doubts):
        found.append("an earlier change of this module was cut short, and what it made may be in no state")
    if any(doubt.is_set_back for doubt in module.doubts):
        found.append("the server's database was or may have been set back, so this module may have been changed since")
    if module.is_state_replaced and (job.plan is None or plan_words.has_changes(job.plan)):
        found.append(
            "a person replaced the state by an imported or an older one, so what was created since may be in no state"
        )
    elif module.is_state_brought and (job.plan is None or job.plan.add):
        found.append("a person imported or restored the state, so what the plan creates may exist already")
    if module.lock_doubt and (job.plan is None or plan_words.has_changes(job.plan)):
        found.append(f"{module.lock_doubt}, so what was changed under it may be in no state")
    if job.type is JobType.APPLY and (words := reason_to_ask(job.plan, module.limits)):
        found.append(words)
    if module.min_approvals:
        who = "a person approves" if module.min_approvals == 1 else f"{module.min_approvals} people approve"
        found.append(f"{module.approvals_required_by} requires that {who} each change")
    elif job.needs_approval:
        found.append("an approval was required when the job was queued")
    found += [need.words for need in module.approvers.needs]
    if has_waited and not found:
        found.append("an earlier plan of this job needed an approval, so this one does, too")
    return found


def _is_usable(job: Job, plan: Plan, state_version: int) -> bool:
    """Return whether this is the plan that the job continues with, decided about, and not applied yet."""
    if (plan.job_id, plan.attempt) != (job.id, job.plan_attempt) or plan.applied_by is not None:
        return False
    return plan.decision == "approved" and plan.state_version == state_version


def is_approved(plan: Plan | None, module: ModuleFacts) -> bool:
    """Return whether enough people have approved this plan and the doubts that they have named.

    One from before a fence has lapsed with it. The times alone do not tell: a fence whose transaction began first and ended
    last has the earlier time, and the approver has not seen it.
    """
    if plan is None or plan.decided_at is None:
        return False
    # The rule may have become stricter since, and those who approved may have lost their role.
    if approver_rules.missing(plan.approvals, max(1, module.min_approvals), module.approvers):
        return False
    return all(doubt.ref in plan.doubts and plan.decided_at > doubt.fenced_at for doubt in module.doubts)


def ends_change(step: StepStatus) -> bool:
    """Return whether this says that the engine has ended its mutating command by itself, or never started it."""
    if step.step not in MUTATING or step.status == "RUNNING":
        return False
    return not step.is_cut_short


def leaves_change_open(step: StepStatus) -> bool:
    """Return whether this says that something which the mutating command changed may be in no state, whatever it has left."""
    return step.step in MUTATING and step.is_cut_short


def finish(job: Job, attempt: Attempt, result: Result, now: datetime) -> Decision | None:
    """Take the executor's report of how it ended. A late or superseded report changes nothing current (rules 2 and 5).

    It is the last event of an attempt, so everything before it has arrived and all of its processes have exited. A change
    that the engine did not end by itself leaves the module in doubt (rule 9), however the job ends.
    """
    over = replace(attempt, is_gone=True, has_result=True, may_hold_lock=not result.is_lock_free)
    is_open = _is_open(job, attempt, is_delivered=True)
    if not is_current(job, attempt) or job.status is not JobStatus.PROCESSING or result.status == "WAITING":
        over = replace(over, is_in_doubt=attempt.is_in_doubt and is_open)
        return None if attempt.ended_at is None or over == attempt else Decision(job, over)
    over = replace(over, is_in_doubt=is_open)
    if result.status == "CANCELED" and job.cancel_mode is None:
        # Nobody requested the cancellation: the host was shut down, or the executor was evicted.
        return _requeue(job, over.end("gone", now, result.message), now)
    message = result.message if result.is_lock_free else f"{result.message}; {HELD_LOCK}"
    ended = over.end(_OUTCOMES[result.status], now, message)
    after = job.to(JobStatus(result.status), now, message=plain(message), failure_kind=result.failure_kind)
    if result.kept is None or job.type is not JobType.PLAN or result.status != "SUCCEEDED":
        return Decision(after, ended)
    return Decision(
        replace(after, plan_attempt=attempt.number), ended, decide_plan.saved(job, attempt, result.kept, now, why="")
    )


def _is_open(job: Job, attempt: Attempt, *, is_delivered: bool) -> bool:
    """Return whether no state may record something that a terminated attempt changed (rule 9)."""
    if not attempt.may_have_changed:
        return False
    return not is_delivered or not (attempt.is_change_ended or job.interrupted == "retry")


def returns_doubts(before: Attempt, after: Attempt) -> bool:
    """Return whether the doubts that the attempt's `begin` has ended come back (rule 9).

    The person who approved its plan decided about them with this plan, which was not carried out to its end: no state may record
    what it was to import, and the person who approves the next plan has to know of all of them.
    """
    return after.is_in_doubt and not before.is_in_doubt


def refusal_of_events(attempt: Attempt, now: datetime, late_delivery: timedelta = LATE_DELIVERY) -> str | None:
    """Return why nothing more is accepted from this attempt; None where it may still deliver."""
    if attempt.has_result:
        return "its result has arrived, and that is the last event of an attempt"
    if attempt.ended_at is not None and now - attempt.ended_at > late_delivery:
        return f"it ended more than {late_delivery.days} days ago"
    return None


# ---- a plan that waits for approval


def wait(job: Job, attempt: Attempt, kept: KeptPlan, now: datetime, why: str = "") -> Decision | None:
    """Let a job wait with its saved plan: the attempt ends and releases its slot and its lock. `why` is stored with the plan."""
    if not is_current(job, attempt) or job.status is not JobStatus.PROCESSING or attempt.begun_at is not None:
        return None
    ended = replace(attempt.end("waiting", now, "its plan waits for approval"), is_gone=True, has_result=True)
    plan = decide_plan.saved(job, attempt, kept, now, why)
    if job.cancel_mode is not None:  # the row names what was stored, so that both are removed together
        return Decision(_canceled(job, now), ended, plan)
    return Decision(job.to(JobStatus.AWAITING_APPROVAL, now, plan_attempt=attempt.number), ended, plan)


# ---- an attempt that fails, is lost or is canceled


def hand_back(job: Job, attempt: Attempt, reason: str, now: datetime) -> Decision | None:
    """Requeue a job because no process of the attempt ever existed. After `begin` that cannot be true, so it is ignored."""
    if not is_current(job, attempt) or attempt.may_have_changed or attempt.started_at is not None:
        return None
    ended = replace(attempt.end("handed_back", now, reason), is_gone=True)
    return _requeue(job, ended, now, plan_attempt=job.plan_attempt)


def refuse(job: Job, attempt: Attempt, reason: str, now: datetime) -> Decision | None:
    """Fail a job that was just claimed and cannot be started, because something that it needs is missing."""
    if not is_current(job, attempt) or attempt.begun_at is not None or attempt.started_at is not None:
        return None
    ended = replace(attempt.end("failed", now, reason), is_gone=True)
    return Decision(job.to(JobStatus.FAILED, now, message=plain(reason), failure_kind="inputs"), ended)


def send_back(job: Job, attempt: Attempt, reason: str, now: datetime, *, keeps_plan: bool = False) -> Decision | None:
    """Requeue a job that cannot continue before a person has decided something that needs the module's lock to be free, or that has
    too little time left where it is. In the second case it keeps a plan that was approved."""
    if not is_current(job, attempt) or attempt.begun_at is not None:
        return None
    return _requeue(
        job, attempt.end("waiting", now, reason), now, plan_attempt=job.plan_attempt if keeps_plan else None
    )


def stop(job: Job, attempt: Attempt, reason: str, now: datetime) -> Decision | None:
    """Fail a job whose plan a policy does not let pass. Its attempt has changed nothing, and ends."""
    if not is_current(job, attempt) or attempt.begun_at is not None:
        return None
    failed = job.to(JobStatus.FAILED, now, message=plain(reason), failure_kind="policy")
    return Decision(failed, attempt.end("failed", now, reason))


def gone(job: Job, attempt: Attempt, report: Report, now: datetime) -> Decision | None:
    """Take a runner's report that all processes of the attempt have exited, so that it can change nothing more.

    That does not mean that nothing is unaccounted for: what the runner says of its deliveries counts only as far as the
    server's own mark confirms it, and an engine that was killed may have made what no state has.
    """
    is_delivered = report.is_delivered and report.last is not None and attempt.mark >= report.last
    is_open = _is_open(job, attempt, is_delivered=is_delivered)
    if is_current(job, attempt):
        ended = _unknown_lock(attempt.end("gone", now, report.reason))
        return _requeue(job, replace(ended, is_gone=True, is_in_doubt=is_open, is_delivered=is_delivered), now)
    over = replace(
        attempt,
        is_gone=True,
        is_in_doubt=attempt.is_in_doubt and is_open,
        is_delivered=attempt.is_delivered or (is_delivered and not attempt.has_result),
        reason=_with_cause(attempt, report.reason),
    )
    return None if attempt.ended_at is None or over == attempt else Decision(job, over)


def _with_cause(attempt: Attempt, cause: str) -> str:
    """Return the reason of an ended attempt with what its runner knows of the cause.

    An executor that is told to end cannot know why, and its report is here first. Its runner knows that a pod was evicted.
    """
    is_unexplained = attempt.outcome == "gone" and attempt.has_result
    return plain(f"{attempt.reason}: {cause}") if is_unexplained and cause not in attempt.reason else attempt.reason


def missing(job: Job, attempt: Attempt, reason: str, now: datetime) -> Decision | None:
    """Requeue a job whose runner came back without its attempt. After `begin` the processes may still run: nothing changes."""
    if not is_current(job, attempt) or attempt.may_have_changed:
        return None
    return _requeue(job, _unknown_lock(attempt.end("lost", now, reason)), now)


def unconnected(job: Job, attempt: Attempt, reason: str, now: datetime) -> Decision | None:
    """Requeue a job whose executor runs, says its runner, but has never connected. It counts as a loss, so that this ends some time.

    Without contact there is no permit, so nothing was changed.
    """
    if not is_current(job, attempt) or attempt.started_at is not None or attempt.may_have_changed:
        return None
    return _requeue(job, attempt.end("lost", now, reason), now, is_loss=True)


def lost(
    job: Job, attempt: Attempt, contact: LastContact, now: datetime, lease: timedelta = APPLY_LEASE
) -> Decision | None:
    """Decide about a silent attempt. Before `begin` its job is requeued; after it, the job waits and keeps its lock.

    The lease starts at that moment and is canceled when contact returns. When the lease ends, the attempt is fenced.
    """
    if not is_current(job, attempt):
        return None
    if not is_silent(attempt, contact, now):
        is_back = attempt.lost_at is not None and not contact.is_grace
        return Decision(job, replace(attempt, lost_at=None)) if is_back else None
    if not attempt.may_have_changed:
        return missing(job, attempt, "neither the runner nor the executor is in contact any more", now)
    if attempt.lost_at is None or _had_contact_since(attempt.lost_at, attempt, contact):
        return Decision(job, replace(attempt, lost_at=now))
    if now - attempt.lost_at < lease:
        return None
    return _fence(job, attempt, f"lost in the middle of a change, without contact for {lease}", now)


def _had_contact_since(then: datetime, attempt: Attempt, contact: LastContact) -> bool:
    """Return whether there was contact after the loss that no check saw, for example because a server was killed."""
    return (not contact.is_grace and contact.last > then) or (attempt.heard_at is not None and attempt.heard_at > then)


def is_silent(attempt: Attempt, contact: LastContact, now: datetime) -> bool:
    last = max(contact.last, attempt.heard_at or contact.last)
    return now - last > (CLOSED_FOR if contact.is_closed else SILENT_FOR)


def give_up(job: Job, attempt: Attempt, contact: LastContact, by: str, now: datetime) -> Decision:
    """Give up a lost attempt that a person declares gone; unlocking its module is the same. The attempt is fenced."""
    if not is_current(job, attempt):
        raise Conflict(f"attempt {attempt.number} of job {job.number} has ended or has no owner", status=job.status)
    if not attempt.may_have_changed:
        raise Conflict(
            f"attempt {attempt.number} has changed nothing yet: its job is queued again automatically if it is lost"
        )
    is_in_contact = not is_silent(attempt, contact, now) and not contact.is_grace
    if attempt.lost_at is None or is_in_contact:
        raise Conflict(f"attempt {attempt.number} of job {job.number} is in contact: cancel the job instead")
    return _fence(job, attempt, f"lost in the middle of a change; {by} said that it is gone", now)


def _fence(job: Job, attempt: Attempt, reason: str, now: datetime) -> Decision:
    return _requeue(job, lose(attempt, reason, now), now)


def lose(attempt: Attempt, reason: str, now: datetime) -> Attempt:
    """End an attempt that may have changed something, and of which nothing more is known. It puts its module in doubt."""
    return replace(_unknown_lock(attempt.end("lost", now, reason)), is_in_doubt=True)


def _unknown_lock(attempt: Attempt) -> Attempt:
    """Note that an attempt that did not report its end may have left the lock of its module's own backend behind."""
    return replace(attempt, may_hold_lock=attempt.started_at is not None)


def cancel(job: Job, mode: CancelMode, now: datetime, by: str) -> Job:
    """Cancel a job. If nothing runs, it ends here; otherwise the attempt is asked to stop, and its report ends the job."""
    if not job.is_active:
        return job.to(JobStatus.CANCELED, now, message=f"canceled by {by}")
    return replace(job, cancel_mode=max(job.cancel_mode or mode, mode, key=_STRENGTH.__getitem__))


def adoption(
    job: Job,
    attempt: Attempt,
    *,
    is_newest: bool,
    is_same_lineage: bool,
    is_module_mutating: bool,
    has_quarantine: bool,
) -> bool:
    """Return whether a state becomes the current one automatically; otherwise it goes into quarantine for a person to decide.

    `is_newest`: nobody else has written since this attempt's `begin`, and it is not older than what this one wrote.
    An attempt without a permit has started no engine that mutates, so its state is not from one. A state with another lineage
    describes other resources, so not even the current attempt may replace the module's state with it. The same is true of a state
    of which nobody knows what it builds on.
    """
    if attempt.begun_at is None or attempt.begun_state_version == UNKNOWN_VERSION:
        return False
    if not is_same_lineage:
        return False
    if is_current(job, attempt):
        return True
    return is_newest and not is_module_mutating and not has_quarantine


def _requeue(
    job: Job, attempt: Attempt, now: datetime, *, plan_attempt: int | None = None, is_loss: bool = False
) -> Decision:
    if job.cancel_mode is not None:
        return Decision(_canceled(job, now), attempt)
    if job.has_lost_inputs:
        message = (
            "the database was set back and has lost the inputs that were given to this job: run it again with them"
        )
        return Decision(job.to(JobStatus.FAILED, now, message=message, failure_kind="set_back"), attempt)
    is_loss |= attempt.outcome == "gone" or (attempt.outcome == "lost" and attempt.started_at is not None)
    losses = job.losses + is_loss
    if losses >= MAX_LOSSES:
        message = f"given up after {losses} lost attempts; the last one: {attempt.reason}"
        return Decision(job.to(JobStatus.FAILED, now, message=message, losses=losses, failure_kind="lost"), attempt)
    kept = {} if plan_attempt is None else {"plan_attempt": plan_attempt, "plan": job.plan}
    return Decision(job.to(JobStatus.QUEUED, now, losses=losses, **kept), attempt)


def _canceled(job: Job, now: datetime) -> Job:
    return job.to(JobStatus.CANCELED, now, message="canceled; its attempt had ended")
