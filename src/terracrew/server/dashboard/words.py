"""Colour, shape and word of each status, the same on every page."""

from datetime import UTC, datetime
from typing import Literal, Protocol

import msgspec

from terracrew.protocol.spec import JobType, Step
from terracrew.server.jobs.model import JobStatus, Reason
from terracrew.server.runners.model import RunnerStatus

Tone = Literal["ok", "warn", "bad", "busy", "idle"]
Shape = Literal["circle", "half", "cross", "arc", "clock", "tick", "slash", "mark"]


class Badge(msgspec.Struct, frozen=True):
    tone: Tone
    shape: Shape
    word: str


_RUNNERS = {
    RunnerStatus.ONLINE: Badge("ok", "circle", "Online"),
    RunnerStatus.DRAINING: Badge("warn", "half", "Draining"),
    RunnerStatus.OFFLINE: Badge("bad", "cross", "Offline"),
}
_JOBS = {
    JobStatus.QUEUED: Badge("idle", "clock", "Waiting"),
    JobStatus.CLAIMED: Badge("busy", "arc", "Starting"),
    JobStatus.PROCESSING: Badge("busy", "arc", "Running"),
    JobStatus.AWAITING_APPROVAL: Badge("warn", "clock", "Awaiting approval"),
    JobStatus.SUCCEEDED: Badge("ok", "tick", "Succeeded"),
    JobStatus.FAILED: Badge("bad", "cross", "Failed"),
    JobStatus.CANCELED: Badge("idle", "slash", "Canceled"),
    JobStatus.DECLINED: Badge("bad", "slash", "Declined"),
}
_UNHEARD = {"silent": Badge("warn", "mark", "No contact"), "lost": Badge("bad", "mark", "Lost")}
_DOING = {
    Step.FETCH: "Fetching",
    Step.INPUTS: "Preparing",
    Step.INIT: "Initializing",
    Step.VALIDATE: "Validating",
    Step.PLAN: "Planning",
    Step.APPLY: "Applying",
    Step.DESTROY: "Destroying",
    Step.OUTPUT: "Reading outputs",
}
STEPS = {
    Step.FETCH: "Fetch source",
    Step.INPUTS: "Inputs",
    Step.INIT: "Init",
    Step.VALIDATE: "Validate",
    Step.PLAN: "Plan",
    Step.APPLY: "Apply",
    Step.DESTROY: "Destroy",
    Step.OUTPUT: "Outputs",
}
_ENGINES = {"tofu": "OpenTofu", "terraform": "Terraform", "pulumi": "Pulumi"}
_ENDED = {
    "succeeded": "succeeded",
    "failed": "failed",
    "canceled": "canceled",
    "waiting": "paused for approval",
    "handed_back": "handed back by its runner",
    "lost": "runner lost",
    "gone": "its process was gone",
}
_MENDS = {
    "approval": "Decide",
    "in_doubt": "Look at it",
    "lost": "Look at it",
    "quarantine": "Decide about it",
    "module_busy": "Show that job",
    "silent": "Look at it",
}


def runner_badge(status: RunnerStatus) -> Badge:
    return _RUNNERS[status]


def job_badge(
    status: JobStatus, step: Step | None = None, *, is_canceling: bool = False, reason: Reason | None = None
) -> Badge:
    if status is JobStatus.PROCESSING or status is JobStatus.CLAIMED:
        if reason is not None and reason.code in _UNHEARD:
            return _UNHEARD[reason.code]
        if is_canceling:
            return Badge("warn", "arc", "Canceling")
    if status is JobStatus.PROCESSING and step is not None:
        return Badge("busy", "arc", _DOING[step])
    return _JOBS[status]


def job_type(kind: JobType) -> str:
    return kind.value.replace("_", " ").capitalize()


class _Called(Protocol):
    @property
    def type(self) -> JobType: ...
    @property
    def is_destroy_plan(self) -> bool: ...


def job_word(job: _Called) -> str:
    """Return what kind of job it is, in words."""
    return "Destroy plan" if job.is_destroy_plan else job_type(job.type)


def engine(name: str) -> str:
    return _ENGINES.get(name, name)


def ended(outcome: str) -> str:
    """Return how an attempt ended."""
    return _ENDED.get(outcome, outcome)


def mend(code: str) -> str:
    """Return the text of a reason's link."""
    return _MENDS.get(code, "Show runners")


def sentence(text: str) -> str:
    """Return a part of a sentence as a whole sentence."""
    text = text.strip()
    return text and text[0].upper() + text[1:] + ("" if text[-1] in ".!?" else ".")


def ago(then: datetime, now: datetime) -> str:
    seconds = int((now - then).total_seconds())
    if seconds < 5:
        return "now"
    if seconds < 60:
        return f"{seconds} s ago"
    if seconds < 3600:
        return f"{seconds // 60} min ago"
    if seconds < 86400:
        return f"{seconds // 3600} h ago"
    return f"{seconds // 86400} d ago"


def iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
