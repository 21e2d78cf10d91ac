"""The timeline of a job: what happened to it in order, how long each part took, what it does now, and what follows."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from terracrew.durations import duration
from terracrew.protocol.spec import MUTATING, STEPS_OF, JobType, Step
from terracrew.server.dashboard import words
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.model import CHOSEN, Attempt, JobStatus, Plan, StepRow
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.runs import attempt_report
from terracrew.server.runs.model import JobView

MAX_ATTEMPTS = 8
"""How many attempts the timeline shows: the last ones. The table of attempts has all of them."""
_LATE = frozenset({*MUTATING, Step.OUTPUT})
"""The steps that the timeline shows one by one; those before them are one part, with the duration of each."""
_DONE = {Step.APPLY: "Applied", Step.DESTROY: "Destroyed", Step.OUTPUT: "Outputs read"}


class TimelinePart(msgspec.Struct, frozen=True):
    """One part of the timeline."""

    mark: str
    """The mark, as for a step: SUCCEEDED, RUNNING, WAITING, FAILED, CANCELED, SKIPPED, OUT_OF_CONTACT or PENDING."""
    title: str
    note: str = ""
    took: str = ""
    """How long it lasted; empty while it lasts, or if that is not known."""
    since: datetime | None = None
    """Since when it lasts, if it lasts now."""
    at: datetime | None = None
    """When it began."""


class Course(msgspec.Struct, frozen=True):
    """What the timeline is made of."""

    view: JobView
    started_by: str
    runners: Mapping[int, str]
    steps: Mapping[int, Sequence[StepRow]]
    """The steps of each attempt that is shown."""
    plans: Mapping[int, Plan]
    """The plans that have waited for a person, by the attempt that made them."""
    asks: bool = False
    """Whether a place requires an approval of each change."""


async def read(tx: Tx, view: JobView, started_by: str, runners: Mapping[int, str], *, asks: bool) -> list[TimelinePart]:
    steps = await attempt_report.steps_of(tx, view.id, (each.number for each in view.attempts[-MAX_ATTEMPTS:]))
    asked = [] if view.type is JobType.PLAN else await plan_store.of_job(tx, view.id)
    plans = {each.attempt: each for each in asked}
    return parts(Course(view, started_by, runners, steps, plans, asks))


def parts(course: Course) -> list[TimelinePart]:
    """Return the timeline of a job: a pure function."""
    view, shown = course.view, course.view.attempts[-MAX_ATTEMPTS:]
    first = view.attempts[0].claimed_at if view.attempts else None
    is_waiting = first is None and view.status is JobStatus.QUEUED
    found = [
        TimelinePart(
            "WAITING" if is_waiting else "SUCCEEDED",
            "Waiting to start" if is_waiting else "Queued",
            f"by {course.started_by}" if course.started_by else "",
            "" if first is None else _span(view.created_at, first),
            view.created_at if is_waiting else None,
            view.created_at,
        )
    ]
    if chosen := course.plans.get(CHOSEN):
        found = _chosen(course, chosen, found)
    if len(view.attempts) > len(shown):
        found.append(TimelinePart("SKIPPED", f"{len(view.attempts) - len(shown):,} earlier attempts"))
    for each in shown:
        found += _of_attempt(course, each)
    if shown and view.status is JobStatus.QUEUED:
        found.append(TimelinePart("WAITING", "Waiting to start", since=view.queued_at, at=view.queued_at))
    if view.status is JobStatus.CANCELED:
        found.append(TimelinePart("CANCELED", "Canceled", at=view.finished_at))
    return found if view.is_terminal else found + _following(course)


def _of_attempt(course: Course, attempt: Attempt) -> list[TimelinePart]:
    view, steps = course.view, [each for each in course.steps.get(attempt.number, ()) if each.started_at]
    steps.sort(key=lambda each: list(Step).index(each.name))
    is_open = attempt.ended_at is None and attempt.lost_at is None and not view.is_terminal
    has_started = attempt.started_at is not None or bool(steps)
    is_starting = is_open and not has_started
    where = f"attempt {attempt.number} on {course.runners.get(attempt.number) or 'a runner'}"
    found = [
        TimelinePart(
            "RUNNING" if is_starting else "SUCCEEDED" if has_started else "SKIPPED",
            "Started" if has_started else "Offered and claimed",
            where,
            "" if attempt.started_at is None else _span(attempt.claimed_at, attempt.started_at),
            attempt.claimed_at if is_starting else None,
            attempt.claimed_at,
        )
    ]
    early = [each for each in steps if each.name not in _LATE and each.status != "SKIPPED"]
    if early:
        found.append(_early(early, is_open=is_open))
    if plan := course.plans.get(attempt.number):
        found.append(_waited(course, plan))
    found += [_late(each, is_open=is_open) for each in steps if each.name in _LATE and each.status != "SKIPPED"]
    if attempt.outcome in ("lost", "gone", "handed_back") or (attempt.outcome == "waiting" and plan is None):
        found.append(
            TimelinePart("FAILED", words.ended(attempt.outcome).capitalize(), attempt.reason, at=attempt.ended_at)
        )
    elif attempt.lost_at and attempt.ended_at is None:
        found.append(TimelinePart("FAILED", "Lost", "there is no contact", since=attempt.lost_at, at=attempt.lost_at))
    return found


def _early(steps: Sequence[StepRow], *, is_open: bool) -> TimelinePart:
    """Return the steps until the plan as one part, with the duration of each."""
    last = steps[-1]
    took = [
        f"{words.STEPS[each.name].lower()} {_span(each.started_at, each.finished_at)}"
        for each in steps
        if each.finished_at
    ]
    note, begun = ", ".join(took), steps[0].started_at
    if failed := next((each for each in steps if each.status in ("FAILED", "CANCELED")), None):
        word = "failed" if failed.status == "FAILED" else "canceled"
        return TimelinePart(
            failed.status, f"{words.STEPS[failed.name]} {word}", note, _span(begun, failed.finished_at), at=begun
        )
    if last.status == "RUNNING" and is_open:
        return TimelinePart("RUNNING", words.activity(last.name), note, since=last.started_at, at=begun)
    if last.name is not Step.PLAN:
        return TimelinePart(
            "SUCCEEDED" if is_open else "SKIPPED",
            words.STEPS[last.name],
            note,
            _span(begun, last.finished_at),
            at=begun,
        )
    return TimelinePart("SUCCEEDED", "Planned", note, _span(begun, last.finished_at), at=begun)


def _chosen(course: Course, plan: Plan, queued: list[TimelinePart]) -> list[TimelinePart]:
    """Return where the plan comes from that the job was created to apply, and the wait for a person, if anybody had to look at it."""
    number = course.view.plan_job_number
    made = TimelinePart("SUCCEEDED", "Planned", f"by job #{number}" if number else "", at=plan.made_at)
    has_waited = plan.decision is None or bool(plan.approvals)
    asked = [_waited(course, msgspec.structs.replace(plan, made_at=course.view.created_at))] if has_waited else []
    return [made, *queued, *asked]


def _waited(course: Course, plan: Plan) -> TimelinePart:
    """Return the wait for a person: who has approved, what was decided, and when it ends by itself."""
    view = course.view
    is_current = view.status is JobStatus.AWAITING_APPROVAL and view.plan_attempt == plan.attempt
    names = [each.by for each in plan.approvals]
    if is_current:
        needed = view.approvals_needed or 1
        note = f"{view.approvals_counted or 0} of {needed} approvals" if needed > 1 else ""
        note += f": {', '.join(names)}" if names and note else ""
        return TimelinePart("WAITING", "Waiting for approval", note, since=plan.made_at, at=plan.made_at)
    took = _span(plan.made_at, plan.decided_at)
    if plan.decision == "approved":
        title = "Approved in doubt" if plan.doubts else "Approved"
        return TimelinePart("SUCCEEDED", title, f"by {', '.join(names) or plan.decided_by}", took, at=plan.made_at)
    if plan.decision == "declined":
        because = f": {plan.reason}" if plan.reason else ""
        return TimelinePart("FAILED", "Declined", f"by {plan.decided_by}{because}", took, at=plan.made_at)
    if view.is_terminal and view.attempt == plan.attempt:
        return TimelinePart("CANCELED", "Not approved", "", _span(plan.made_at, view.finished_at), at=plan.made_at)
    return TimelinePart("SKIPPED", "Planned again", "", at=plan.made_at)


def _late(step: StepRow, *, is_open: bool) -> TimelinePart:
    took = _span(step.started_at, step.finished_at)
    if step.status == "SUCCEEDED":
        return TimelinePart("SUCCEEDED", _DONE[step.name], "", took, at=step.started_at)
    if step.status == "RUNNING" and is_open:
        return TimelinePart("RUNNING", words.activity(step.name), since=step.started_at, at=step.started_at)
    if step.status == "RUNNING":
        return TimelinePart("OUT_OF_CONTACT", f"{words.STEPS[step.name]} has no known end", "", "", at=step.started_at)
    exit_code = f"exit code {step.exit_code}" if step.exit_code else ""
    if step.status == "FAILED":
        return TimelinePart("FAILED", f"{words.STEPS[step.name]} failed", exit_code, took, at=step.started_at)
    return TimelinePart("CANCELED", f"{words.STEPS[step.name]} ended early", exit_code, took, at=step.started_at)


def _following(course: Course) -> list[TimelinePart]:
    """Return the parts that have not begun."""
    view = course.view
    begun = {each.name for each in course.steps.get(view.attempt, ()) if each.started_at}
    has_plan = view.plan_attempt is not None or Step.PLAN in begun
    planned = [] if has_plan or Step.PLAN not in STEPS_OF.get(view.type, ()) else [TimelinePart("PENDING", "Plan")]
    is_asked = (view.needs_approval or course.asks) and view.plan_attempt is None
    asked = [TimelinePart("PENDING", "Approval")] if is_asked else []
    late = [
        TimelinePart("PENDING", words.STEPS[each])
        for each in STEPS_OF.get(view.type, ())
        if each in _LATE and each not in begun
    ]
    return planned + asked + late


def _span(since: datetime | None, until: datetime | None) -> str:
    return "" if since is None or until is None else duration((until - since).total_seconds(), exact=True)
