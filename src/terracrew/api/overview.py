"""The overview: what needs the caller, what waits, and figures of jobs and runners over a day, a week or a month."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.jobs import JobStatus

OverviewSpan = Literal["day", "week", "month"]
"""The last 24 hours in parts of an hour, the last 7 days in parts of 6 hours, or the last 30 days in parts of a day; in UTC."""
NeedKind = Literal[
    "approve", "failed", "lost", "doubt", "quarantine", "stale", "waiting", "drift", "offline", "outdated"
]


class FigureSums(msgspec.Struct, frozen=True, kw_only=True):
    """What has happened in a part of the time."""

    starts_at: datetime
    ends_at: datetime
    succeeded: int = 0
    failed: int = 0
    canceled: int = 0
    declined: int = 0
    failed_infrastructure: int = 0
    """How many of the failed jobs those who operate runners and the server can mend."""
    failed_engine: int = 0
    """How many of the failed jobs those who write the configuration can mend."""
    failed_policy: int = 0
    """How many of the failed jobs a limit, a hook or a policy has refused."""
    failed_user: int = 0
    """How many of the failed jobs the person who started them can mend."""
    starts: int = 0
    """How many attempts have started, and ended in this time."""
    wait_p50_seconds: float | None = None
    """The wait from the queue to the start that half of them did not exceed, to 19 %; null if there were none."""
    wait_p95_seconds: float | None = None
    """The wait that 95 % of them did not exceed, to 19 %."""
    busy_seconds: float = 0.0
    """For how long slots of the runners of the place were occupied, together."""
    capacity_seconds: float = 0.0
    """For how long slots of connected runners of the place were there, occupied or not."""

    @property
    def finished(self) -> int:
        return self.succeeded + self.failed + self.canceled + self.declined

    @property
    def utilisation(self) -> float | None:
        """The share of the slots that was occupied, from 0 to 1; None if there were no slots."""
        return min(1.0, self.busy_seconds / self.capacity_seconds) if self.capacity_seconds > 0 else None


class QueueNow(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that have not ended, now."""

    running: int = 0
    waiting: int = 0
    """How many wait for a runner."""
    awaiting_approval: int = 0
    oldest_job_id: str | None = None
    """The job that has waited for a runner for the longest time."""
    oldest_number: int | None = None
    oldest_since: datetime | None = None


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that needs the caller."""

    kind: NeedKind
    path: str
    """The module or the runner that it is about."""
    text: str
    """Why, as a sentence."""
    since: datetime | None = None
    job_id: str | None = None
    job_number: int | None = None
    module_id: str | None = None
    runner_id: str | None = None


class ActivityEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has happened: a job that ended, or a change that somebody made."""

    at: datetime
    who: str
    """The name of who started the job, or made the change."""
    text: str
    """What happened, as the rest of a sentence: `apply #12 succeeded`, `approved the plan of job #12 of app/web`."""
    path: str | None = None
    """The group, module or runner that it is about; null for what is at no place of the tree."""
    status: JobStatus | None = None
    """How the job ended; null for a change that somebody made."""
    action: str | None = None
    """What the audit log calls the change; null for a job."""
    target_kind: str
    """What it is about: `job`, `module`, `group`, `runner`, `user` and others of the audit log."""
    target_id: str
    """The id of what it is about."""


ComingKind = Literal["schedule", "approval", "role", "secret", "trust_policy", "token"]


class ComingUp(msgspec.Struct, frozen=True, kw_only=True):
    """Something with a date that has not come yet."""

    at: datetime
    kind: ComingKind
    """A schedule starts; the time to approve a plan is over; or a role, a client secret, a trust policy or an API token ends."""
    path: str | None = None
    """The group or module that it is about; null for what is at no place of the tree."""
    place_kind: Literal["group", "module"] | None = None
    """What the path is that of."""
    text: str
    """What happens then, as a sentence without its path."""
    target_id: str
    """The id of the schedule, job, role, service account or API token that it is about."""


class Overview(msgspec.Struct, frozen=True, kw_only=True):
    place: str
    """The group; empty for the organization."""
    span: OverviewSpan
    is_partial: bool
    """Whether the caller sees only parts of the place. The sums count the groups that they see as a whole, and no single modules
    outside of these."""
    queue: QueueNow
    total: FigureSums
    parts: list[FigureSums]
    """The same for each part of the span, the oldest first."""
    needs: list[Need]
    """What needs the caller, at most 10 of each kind, the most urgent first."""
    more_needs: list[NeedKind]
    """The kinds of which there are more."""
    activity: list[ActivityEntry] = msgspec.field(default_factory=list[ActivityEntry])
    """What has happened last, the newest first: jobs, and changes from the part of the audit log that the caller may read."""
    coming_up: list[ComingUp] = msgspec.field(default_factory=list[ComingUp])
    """What has a date within the next 30 days, the nearest first."""
