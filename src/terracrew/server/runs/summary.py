"""Describes the run of a job as one sequence: how each attempt ended, in the words that appear between the logs of two attempts."""

from collections.abc import Sequence
from datetime import datetime
from textwrap import shorten

import msgspec

from terracrew.api.job_views import RunPart
from terracrew.api.jobs import Attempt, Job, JobStatus, Plan, StepRow
from terracrew.protocol.spec import MUTATING, JobType
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import attempt_store, store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.wording.durations import duration

MAX_COMMENT_CHARACTERS = 200
"""How much of the comment of an approval stands in the line between two attempts, where it has no lines of its own."""
_DONE = {JobType.PLAN: "Planned", JobType.APPLY: "Applied", JobType.DESTROY: "Destroyed"}


async def parts(
    tx: Tx, job: Job, attempts: Sequence[Attempt] | None = None, steps: Sequence[StepRow] = ()
) -> list[RunPart]:
    """Return how each attempt of a job ended, in the order of the attempts. `steps` are those of its last attempt, if they are known."""
    attempts = await attempt_store.attempts(tx, job.id) if attempts is None else attempts
    has_waited = any(each.outcome == "waiting" for each in attempts)
    plans = {plan.attempt: plan for plan in await plan_store.of_job(tx, job.id)} if has_waited else {}
    return [part(job, each, plans.get(each.number), steps if each.number == job.attempt else ()) for each in attempts]


async def after(tx: Tx, job_id: str, number: int) -> RunPart | None:
    """Return what is said between this attempt and the next one; None while that is undecided, or if there is nothing to say."""
    job = await store.get(tx, job_id)
    found = next((each for each in await parts(tx, job) if each.attempt == number), None)
    if found is None or not found.is_over:
        return None
    is_decided = job.is_terminal and job.status is not JobStatus.SUCCEEDED and job.plan_attempt == number
    if number == job.attempt and not is_decided:
        return None  # the end of the last attempt is the end of the job, so only a person's decision is reported
    return found


async def may_deliver_late(tx: Tx, job_id: str, number: int) -> bool:
    """Return whether more of this attempt's log can arrive after its job has continued without it."""
    found = await attempt_store.get_attempt(tx, job_id, number)
    return found is not None and not found.has_result and found.outcome in ("lost", "gone")


def part(job: Job, attempt: Attempt, plan: Plan | None, steps: Sequence[StepRow] = ()) -> RunPart:
    if attempt.ended_at is None:
        return RunPart(attempt.number, "", is_over=False)
    took = duration(_seconds(attempt, attempt.ended_at, steps), exact=True)
    because = f": {attempt.reason}" if attempt.reason else ""
    match attempt.outcome:
        case "waiting" if plan is not None:
            return _waited(job, attempt, plan, took)
        case "succeeded":
            text = f"{_DONE.get(job.type, 'Done')} in {took}"
        case "failed":
            text = f"Failed after {took}"
        case "canceled":
            text = f"Canceled after {took}"
        case "handed_back":
            text = f"Attempt {attempt.number} was handed back by its runner{because}"
        case "waiting":
            text = f"Attempt {attempt.number} was set back{because}"
        case _:
            text = f"Attempt {attempt.number} was lost after {took}{because}"
    if attempt.number != job.attempt and attempt.outcome not in ("succeeded", "failed", "canceled"):
        text += " · queued again"
    return RunPart(attempt.number, text, True, attempt.ended_at)


def _seconds(attempt: Attempt, ended_at: datetime, steps: Sequence[StepRow]) -> float:
    """Return how long an attempt took. Its result may have waited for the server, and its steps have the times of its own machine,
    whose clock may have been set meanwhile: the shorter time counts."""
    whole = (ended_at - attempt.claimed_at).total_seconds()
    starts = [each.started_at for each in steps if each.started_at is not None]
    ends = [each.finished_at for each in steps if each.finished_at is not None]
    if not attempt.has_result or not starts or not ends:
        return whole
    own = (max(ends) - min(starts)).total_seconds()
    return min(whole, own) if own > 0 else whole


def _waited(job: Job, attempt: Attempt, plan: Plan, took: str) -> RunPart:
    """Describe an attempt whose plan needed an approval: how long it waited, and what was decided."""
    is_current = job.plan_attempt == plan.attempt and job.status is JobStatus.AWAITING_APPROVAL
    if is_current:
        return RunPart(attempt.number, f"Planned in {took} · waiting for approval", is_over=False)
    if plan.decided_at is not None:
        waited = duration((plan.decided_at - plan.made_at).total_seconds(), exact=True)
        text = f"Planned in {took} · waited {waited} for approval · {_decision(plan)}"
        return RunPart(attempt.number, text, True, plan.decided_at)
    end = job.finished_at if job.is_terminal and job.attempt == attempt.number else None
    became = job.message or "not approved" if end is not None else "planned again"
    return RunPart(attempt.number, f"Planned in {took} · {became}", True, end or attempt.ended_at)


def _decision(plan: Plan) -> str:
    """Say who has decided about a plan: everybody who has approved it, with what they wrote and when if there are several."""
    if plan.decision != "approved" or not plan.approvals:
        return f"{plan.decision} by {plan.decided_by}" + (f": {plan.reason}" if plan.reason else "")
    people: list[str] = []
    for each in plan.approvals:
        after = duration((each.at - plan.made_at).total_seconds(), exact=True)
        notes = [f"after {after}"] if len(plan.approvals) > 1 else []
        notes += [f"“{shorten(each.comment, MAX_COMMENT_CHARACTERS, placeholder=' …')}”"] if each.comment else []
        people.append(f"{each.by} ({', '.join(notes)})" if notes else each.by)
    doubt = " in doubt" if plan.doubts else ""
    return f"approved{doubt} by {' and '.join([', '.join(people[:-1]), people[-1]] if people[1:] else people)}"


def merged(
    steps: Sequence[StepRow], number: int, plan_steps: Sequence[StepRow], plan_attempt: int | None
) -> list[StepRow]:
    """Return the steps of an attempt. If it continues with another attempt's plan, the skipped steps come from that one."""
    made = {step.name: step for step in plan_steps}
    found: list[StepRow] = []
    for step in steps:
        is_earlier = step.status in ("PENDING", "SKIPPED") and step.name not in MUTATING and step.name in made
        own = made[step.name] if is_earlier else step
        found.append(msgspec.structs.replace(own, attempt=plan_attempt if is_earlier else number))
    return found
