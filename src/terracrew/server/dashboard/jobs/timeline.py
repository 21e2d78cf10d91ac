"""The timeline of a job: five parts whatever happened to it, whose durations add up to the time that the job took.

A job is queued, planned, approved, applied or destroyed, and its outputs are read. A part that lasts has no duration yet. What an
earlier attempt did before it was lost counts as a part of the plan: the table of attempts has the details.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from terracrew.api.job_views import JobView
from terracrew.api.jobs import Attempt, JobStatus, Plan, StepRow
from terracrew.protocol.spec import MUTATING, JobType, Step
from terracrew.server.dashboard import words
from terracrew.server.db.seam import Tx
from terracrew.server.runs import attempt_report
from terracrew.wording.durations import duration

_DONE = {Step.APPLY: "Applied", Step.DESTROY: "Destroyed", Step.OUTPUT: "Outputs read"}
_OVER = ("SUCCEEDED", "FAILED", "CANCELED", "OUT_OF_CONTACT")
"""The marks of a part that has a duration, unless it still lasts."""


class TimelinePart(msgspec.Struct, frozen=True):
    """One part of the timeline."""

    mark: str
    """The mark, as for a step: SUCCEEDED, RUNNING, WAITING, FAILED, CANCELED, SKIPPED, OUT_OF_CONTACT or PENDING."""
    title: str
    note: str = ""
    seconds: float | None = None
    """How long it lasted; None while it lasts, or if it has not begun."""
    since: datetime | None = None
    """Since when it lasts, if it lasts now."""

    @property
    def took(self) -> str:
        return "" if self.seconds is None else duration(self.seconds, exact=True)


class TimelineSource(msgspec.Struct, frozen=True):
    """What the timeline is made of."""

    view: JobView
    started_by: str
    runners: Mapping[int, str]
    steps: Mapping[int, Sequence[StepRow]]
    """The steps of the attempt that planned, and of the current one."""
    asks: bool = False
    """Whether a place requires an approval of each change."""

    @property
    def plan(self) -> Plan | None:
        """Return the plan that a person has or had to look at, or that another job has made."""
        return None if self.view.type is JobType.PLAN else self.view.kept_plan

    @property
    def is_chosen(self) -> bool:
        """Return whether the job applies the plan of a PLAN job."""
        return self.plan is not None and self.plan.is_chosen

    @property
    def has_waited(self) -> bool:
        """Return whether somebody has or had to look at its plan."""
        plan = self.plan
        return plan is not None and (not plan.is_chosen or plan.decision is None or bool(plan.approvals))

    @property
    def planner(self) -> Attempt | None:
        """Return the attempt that makes or has made its plan; None if none does."""
        return self._attempt(self.view.attempt if self.view.plan_attempt is None else self.view.plan_attempt)

    @property
    def changer(self) -> Attempt | None:
        """Return the attempt that changes something or is about to; None while the job waits for a decision or a runner."""
        found = self._attempt(self.view.attempt)
        is_paused = found is not None and self.plan is not None and found.number == self.plan.attempt
        return None if is_paused else found

    @property
    def change(self) -> Step:
        """Return the step that changes something, or would."""
        return Step.DESTROY if self.view.type is JobType.DESTROY else Step.APPLY

    @property
    def begun_at(self) -> datetime | None:
        """Return when the current attempt began to change something."""
        row = self.step(self.change)
        return (self.changer and self.changer.begun_at) or (row and row.started_at)

    @property
    def is_out_of_contact(self) -> bool:
        return self.view.reason is not None and self.view.reason.code in ("lost", "silent")

    def where(self, attempt: Attempt) -> str:
        return f"attempt {attempt.number} on {self.runners.get(attempt.number) or 'a runner'}"

    def step(self, name: Step) -> StepRow | None:
        """Return a step of the current attempt that has started."""
        found = self.steps.get(self.view.attempt, ())
        return next((each for each in found if each.name is name and each.started_at), None)

    def _attempt(self, number: int) -> Attempt | None:
        return next((each for each in self.view.attempts if each.number == number), None)


async def read(tx: Tx, view: JobView, started_by: str, runners: Mapping[int, str], *, asks: bool) -> list[TimelinePart]:
    numbers = {view.attempt, view.plan_attempt or view.attempt}
    steps = await attempt_report.steps_of(tx, view.id, sorted(numbers))
    return parts(TimelineSource(view, started_by, runners, steps, asks))


def parts(course: TimelineSource) -> list[TimelinePart]:
    """Return the timeline of a job: a pure function."""
    found = {
        "queued": _queued(course),
        "planned": _planned(course),
        "asked": _asked(course),
        "changed": _changed(course),
        "outputs": _outputs(course),
    }
    if course.is_chosen:  # its plan was made, and perhaps approved, before it was queued
        found = {name: found[name] for name in ("planned", "asked", "queued", "changed", "outputs")}
    if course.view.is_terminal and not course.view.is_plan_applicable:  # such a plan can still go on, by another job
        found = dict(zip(found, _ended(course.view.status, list(found.values())), strict=True))
    seconds = _seconds_of_parts(course)
    return [
        msgspec.structs.replace(part, seconds=seconds[name]) if part.mark in _OVER and part.since is None else part
        for name, part in found.items()
    ]


def _seconds_of_parts(course: TimelineSource) -> dict[str, float | None]:
    """Return how long each part lasted; None if it has not begun or not ended.

    They are measured by the clock of the server. Only the outputs are measured by that of the runner, as a difference.
    """
    view, plan, end = course.view, course.plan, course.view.finished_at
    first = view.attempts[0].claimed_at if view.attempts else end
    decided_at = None if plan is None else plan.decided_at
    if course.is_chosen:
        queued_at = decided_at if course.has_waited else view.created_at
        planned = None
        asked = _span(view.created_at, decided_at or end)
        queued, changed = _span(queued_at, first), _span(first, end)
    else:
        planned_at = course.begun_at if plan is None else plan.made_at
        queued, planned = _span(view.created_at, first), _span(first, planned_at or end)
        asked, changed = _span(planned_at, decided_at or end), _span(decided_at or planned_at, end)
    row = course.step(Step.OUTPUT)
    outputs = None if row is None else _span(row.started_at, row.finished_at)
    if outputs is not None and changed is not None:
        changed = max(0.0, changed - outputs)
    elif outputs is not None and planned is not None:  # there was nothing to apply
        planned = max(0.0, planned - outputs)
    return {"queued": queued, "planned": planned, "asked": asked, "changed": changed, "outputs": outputs}


def _ended(status: JobStatus, found: list[TimelinePart]) -> list[TimelinePart]:
    """Return the parts of a job that has ended: it has ended in one of them, and what would have followed was skipped."""
    is_marked = status is JobStatus.SUCCEEDED or any(each.mark in _OVER[1:] for each in found)
    ended: list[TimelinePart] = []
    for each in found:
        if each.mark == "PENDING" and not is_marked:
            is_marked, is_canceled = True, status is JobStatus.CANCELED
            title = f"{each.title} {'canceled' if is_canceled else 'failed'}"
            each = msgspec.structs.replace(each, mark="CANCELED" if is_canceled else "FAILED", title=title)
        ended.append(msgspec.structs.replace(each, mark="SKIPPED") if each.mark == "PENDING" else each)
    return ended


def _queued(course: TimelineSource) -> TimelinePart:
    view, by = course.view, f"by {course.started_by}" if course.started_by else ""
    if view.attempts:
        return TimelinePart("SUCCEEDED", "Queued", by)
    if view.status is JobStatus.QUEUED:
        return TimelinePart("WAITING", "Waiting to start", by, since=view.queued_at)
    return TimelinePart("PENDING", "Start", by)


def _planned(course: TimelineSource) -> TimelinePart:
    view, planner = course.view, course.planner
    if course.is_chosen:
        return TimelinePart("SUCCEEDED", "Planned", f"by job #{view.plan_job_number}" if view.plan_job_number else "")
    if planner is None and view.attempts and view.status is JobStatus.QUEUED:
        last = view.attempts[-1]
        why = f"attempt {last.number}: {words.ended(last.outcome or 'gone')}"
        return TimelinePart("WAITING", "Waiting to start again", why, since=view.queued_at)
    if planner is None:
        return TimelinePart("PENDING", "Plan")
    if course.plan is not None or course.begun_at is not None or view.status is JobStatus.SUCCEEDED:
        return TimelinePart("SUCCEEDED", "Planned", course.where(planner))
    return _preparing(course, planner, "Plan")


def _preparing(course: TimelineSource, attempt: Attempt, title: str) -> TimelinePart:
    """Return what an attempt does before it changes anything, or what it has failed at."""
    steps = [each for each in course.steps.get(attempt.number, ()) if each.started_at and each.name not in MUTATING]
    where = course.where(attempt)
    if failed := next((each for each in steps if each.status in ("FAILED", "CANCELED")), None):
        return TimelinePart(failed.status, f"{words.STEPS[failed.name]} {failed.status.lower()}", where)
    if attempt.ended_at is not None or course.view.is_terminal:
        return TimelinePart("PENDING", title, where)
    if course.is_out_of_contact:
        return _no_contact(course, where)
    running = next((each for each in steps if each.status == "RUNNING"), None)
    if running is None:
        return TimelinePart("RUNNING", "Preparing" if steps else "Starting", where, since=attempt.claimed_at)
    return TimelinePart("RUNNING", words.activity(running.name), where, since=running.started_at)


def _asked(course: TimelineSource) -> TimelinePart:
    """Return the wait for a person: who has approved, and what was decided."""
    view, plan = course.view, course.plan
    if plan is None or not course.has_waited:
        return _not_asked(course)
    names = [each.by for each in plan.approvals]
    if view.status is JobStatus.AWAITING_APPROVAL:
        needed = view.approvals_needed or 1
        note = f"{view.approvals_counted or 0} of {needed} approvals" if needed > 1 else ""
        note += f": {', '.join(names)}" if names and note else ""
        since = view.created_at if plan.is_chosen else plan.made_at
        return TimelinePart("WAITING", "Waiting for approval", note, since=since)
    if plan.decision == "approved":
        title = "Approved in doubt" if plan.doubts else "Approved"
        return TimelinePart("SUCCEEDED", title, f"by {', '.join(names) or plan.decided_by}")
    if plan.decision == "declined":
        because = f": {plan.reason}" if plan.reason else ""
        return TimelinePart("FAILED", "Declined", f"by {plan.decided_by}{because}")
    return TimelinePart("CANCELED", "Not approved")


def _not_asked(course: TimelineSource) -> TimelinePart:
    """Return the approval of a job whose plan nobody has to look at, or not yet."""
    view = course.view
    if view.type is JobType.PLAN:
        is_later = view.is_plan_applicable and course.asks
        return TimelinePart(
            "PENDING" if is_later else "SKIPPED", "Approval", "before it is applied" if is_later else ""
        )
    if course.plan is not None or course.begun_at is not None:
        return TimelinePart("SKIPPED", "Approval", "not needed")
    if view.needs_approval or course.asks:
        return TimelinePart("PENDING", "Approval")
    return TimelinePart("SKIPPED", "Approval", "" if view.is_terminal else "not needed so far")


def _changed(course: TimelineSource) -> TimelinePart:
    view, changer, step = course.view, course.changer, course.change
    title = words.STEPS[step]
    if view.type is JobType.PLAN:
        return _applied_elsewhere(view)
    if view.status is JobStatus.AWAITING_APPROVAL:
        return TimelinePart("PENDING", title, "starts on approval")
    if changer is None and view.status is JobStatus.QUEUED and course.plan is not None and view.attempts:
        return TimelinePart("WAITING", f"Waiting to {title.lower()}", since=view.queued_at)
    if changer is None or (course.begun_at is None and course.plan is None):
        note = f"nothing to {title.lower()}" if view.status is JobStatus.SUCCEEDED else ""
        return TimelinePart("PENDING", title, note)
    if (row := course.step(step)) is None:
        return _preparing(course, changer, title)
    where = "" if course.plan is None else course.where(changer)
    if row.status == "SUCCEEDED":
        return TimelinePart("SUCCEEDED", _DONE[step], where)
    if row.status != "RUNNING":
        return TimelinePart(row.status, f"{title} {'failed' if row.status == 'FAILED' else 'ended early'}", where)
    if changer.ended_at is not None or view.is_terminal:
        return TimelinePart("OUT_OF_CONTACT", f"{title} has no known end", where)
    if changer.lost_at is not None or course.is_out_of_contact:
        return _no_contact(course, where, changer.lost_at)
    return TimelinePart("RUNNING", words.activity(step), where, since=row.started_at)


def _no_contact(course: TimelineSource, where: str, lost_at: datetime | None = None) -> TimelinePart:
    since = lost_at or (course.view.reason.since if course.view.reason else None)
    return TimelinePart("OUT_OF_CONTACT", "Lost" if lost_at else "No contact", where, since=since)


def _applied_elsewhere(view: JobView) -> TimelinePart:
    """Return what becomes of the plan of a PLAN job, which another job applies if somebody wants it."""
    if view.is_plan_applicable:
        return TimelinePart("PENDING", "Apply", "if somebody applies this plan")
    if view.taken_by_number:
        return TimelinePart("SKIPPED", "Apply", f"by job #{view.taken_by_number}")
    if view.status is not JobStatus.SUCCEEDED:
        return TimelinePart("SKIPPED", "Apply")
    return TimelinePart("SKIPPED", "Apply", "not possible any more" if view.plan_problem else "nothing to apply")


def _outputs(course: TimelineSource) -> TimelinePart:
    title, row = words.STEPS[Step.OUTPUT], course.step(Step.OUTPUT)
    if course.view.type is JobType.PLAN or (row is not None and row.status == "SKIPPED"):
        return TimelinePart("SKIPPED", title)
    if row is None:
        return TimelinePart("PENDING", title)
    if row.status == "RUNNING" and not course.view.is_terminal:
        return TimelinePart("RUNNING", words.activity(Step.OUTPUT), since=row.started_at)
    if row.status == "SUCCEEDED":
        return TimelinePart("SUCCEEDED", _DONE[Step.OUTPUT])
    return TimelinePart("FAILED", f"{title} not read")


def _span(since: datetime | None, until: datetime | None) -> float | None:
    return None if since is None or until is None else max(0.0, (until - since).total_seconds())
