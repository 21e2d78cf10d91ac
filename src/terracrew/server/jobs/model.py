"""What a job is: its row, its attempts and steps, and the one table of what may become of it."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from terracrew.errors import Conflict
from terracrew.protocol.events import PlanSummary
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import JobType, Source, Step


class JobStatus(StrEnum):
    QUEUED = "QUEUED"
    CLAIMED = "CLAIMED"
    PROCESSING = "PROCESSING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    DECLINED = "DECLINED"


Q, C, P, A = JobStatus.QUEUED, JobStatus.CLAIMED, JobStatus.PROCESSING, JobStatus.AWAITING_APPROVAL
TERMINAL = frozenset({JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED, JobStatus.DECLINED})
ACTIVE = frozenset({C, P})
"""Owned by an attempt: it holds a slot of its runner and the lock of its module."""

TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    Q: frozenset({C, JobStatus.CANCELED, JobStatus.FAILED}),
    C: frozenset({P, Q, JobStatus.CANCELED, JobStatus.FAILED}),
    P: frozenset({Q, A, JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.CANCELED}),
    A: frozenset({Q, JobStatus.DECLINED, JobStatus.CANCELED, JobStatus.FAILED}),
    JobStatus.SUCCEEDED: frozenset(),
    JobStatus.FAILED: frozenset(),
    JobStatus.CANCELED: frozenset(),
    JobStatus.DECLINED: frozenset(),
}

LONGEST_TEXT = 8_000
Outcome = Literal["succeeded", "failed", "canceled", "waiting", "handed_back", "lost", "gone"]


def plain(text: str) -> str:
    """What came from outside as a text that every database stores and every page shows."""
    return text.replace("\0", "\ufffd")[:LONGEST_TEXT]


class Job(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    module_id: str
    number: int
    type: JobType
    status: JobStatus
    attempt: int
    priority: int
    source: Source
    created_by: str
    created_at: datetime
    queued_at: datetime
    losses: int = 0
    """How many attempts were lost after they had started."""
    needs_approval: bool = False
    """Whether a person must look at its plan before anything is changed."""
    approval_seconds: int = 604_800
    plan_attempt: int | None = None
    """The attempt whose kept plan it waits for a decision about, or goes on with."""
    runner_id: str | None = None
    instance_id: str | None = None
    cancel_mode: CancelMode | None = None
    source_digest: str = ""
    source_description: str = ""
    engine_version: str = ""
    plan: PlanSummary | None = None
    message: str = ""
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def to(self, status: JobStatus, now: datetime, **changes: object) -> "Job":
        """Move along the table, keeping what each status implies about times and owner."""
        if status not in TRANSITIONS[self.status]:
            raise Conflict(f"job {self.number} is {self.status} and cannot become {status}", status=self.status)
        if status in TERMINAL:
            changes |= {"finished_at": now}
        if status is JobStatus.QUEUED:
            changes |= {
                "attempt": self.attempt + 1,
                "queued_at": now,
                "runner_id": None,
                "instance_id": None,
                "claimed_at": None,
                "started_at": None,
                "engine_version": "",
                "plan": None,
                "plan_attempt": None,
            } | changes
        return msgspec.structs.replace(self, status=status, **changes)


class Attempt(msgspec.Struct, frozen=True):
    job_id: str
    number: int
    runner_id: str
    instance_id: str
    claimed_at: datetime
    mark: int = 0
    lines: int = 0
    started_at: datetime | None = None
    begun_at: datetime | None = None
    begun_state_version: int | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    reason: str = ""
    is_gone: bool = False
    heard_at: datetime | None = None
    """When its executor, or its runner while it named it, was last heard by any server; to a few seconds."""
    lost_at: datetime | None = None
    """Since when it counts as lost, after its `begin`; nothing is known of it, and the job waits."""
    is_in_doubt: bool = False
    """It was fenced after its `begin`, and nobody knows that it is gone."""
    inputs_sha256: str = ""
    """Of the engine, the inputs and the environment that it was granted with."""

    def end(self, outcome: Outcome, now: datetime, reason: str = "") -> "Attempt":
        return msgspec.structs.replace(self, outcome=outcome, ended_at=now, reason=plain(reason))


class Plan(msgspec.Struct, frozen=True):
    """A plan that was kept with its workspace, and what was decided about it."""

    job_id: str
    attempt: int
    """Which made it."""
    state_version: int
    inputs_sha256: str
    path: str
    sha256: str
    size: int
    made_at: datetime
    decide_by: datetime
    decision: Literal["approved", "declined"] | None = None
    decided_by: str = ""
    decided_at: datetime | None = None
    reason: str = ""
    applied_by: int | None = None
    """The attempt that began with it: there is one at most."""


class StepRow(msgspec.Struct, frozen=True):
    name: Step
    status: Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"]
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None


class Note(msgspec.Struct, frozen=True):
    """Something that came too late to change anything."""

    attempt: int
    text: str
    created_at: datetime


class Reason(msgspec.Struct, frozen=True):
    """Why a job waits: for a program by its code, for a person in words, with the address of the page that mends it."""

    code: Literal[
        "no_assignment", "none_online", "no_credential", "all_full", "module_busy", "instance_absent", "no_engine",
        "plan_runner", "offered", "starting", "silent", "settling", "lost", "quarantine", "approval", "in_doubt",
    ]  # fmt: skip
    text: str
    """The same for as long as the reason is the same, so that whoever follows is told of it once."""
    link: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """When something else happens by itself."""


class Lock(msgspec.Struct, frozen=True):
    """Who holds the module's state lock: the attempt of the active job, and nobody else."""

    job_id: str
    number: int
    attempt: int
    since: datetime
    lost_at: datetime | None = None
    """Since when its holder counts as lost: the lock is an orphan's."""


class Doubtful(msgspec.Struct, frozen=True):
    """What is known of an attempt that was lost in the middle of a change and given up."""

    job_id: str
    number: int
    attempt: int
    runner_path: str | None
    instance_name: str | None
    begun_at: datetime
    fenced_at: datetime
    heard_at: datetime | None
    reason: str


class JobListed(Job, frozen=True, kw_only=True):
    """A job in a list."""

    module_path: str
    reason: Reason | None = None


class JobView(JobListed, frozen=True, kw_only=True):
    """A job as people and programs see it."""

    engine: str
    runner_path: str | None
    instance_name: str | None
    attempts: list[Attempt]
    steps: list[StepRow]
    notes: list[Note]
    lock: Lock | None
    kept_plan: Plan | None = None
    """The one that it waits for a decision about, or went on with."""
    doubts: list[Doubtful] = []
    """Why its module is in doubt, if it is: whoever approves a plan should know."""
