"""Jobs: their rows, attempts, plans and steps, the one table of what may become of them, and the requests about them."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec

from terracrew.api.lost_resources import ImportLost
from terracrew.api.modules import Priority
from terracrew.api.place_settings import Interrupted, LimitsChange
from terracrew.api.plan_options import PlanOptions
from terracrew.errors import Conflict
from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.events import PlanCost, PlanSummary
from terracrew.protocol.messages import AttemptRef, CancelMode
from terracrew.protocol.spec import GitSource, JobLimits, JobType, Source, Step
from terracrew.wording import escapes


class JobStatus(StrEnum):
    QUEUED = "QUEUED"
    CLAIMED = "CLAIMED"
    PROCESSING = "PROCESSING"
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    DECLINED = "DECLINED"


_S = JobStatus
TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELED, _S.DECLINED})
ACTIVE = frozenset({_S.CLAIMED, _S.PROCESSING})
"""The statuses in which a job is owned by an attempt, which holds a slot of its runner and the lock of its module."""
TRANSITIONS: dict[JobStatus, frozenset[JobStatus]] = {
    _S.QUEUED: frozenset({_S.CLAIMED, _S.CANCELED, _S.FAILED}),
    _S.CLAIMED: frozenset({_S.PROCESSING, _S.QUEUED, _S.CANCELED, _S.FAILED}),
    _S.PROCESSING: frozenset({_S.QUEUED, _S.AWAITING_APPROVAL, _S.SUCCEEDED, _S.FAILED, _S.CANCELED}),
    _S.AWAITING_APPROVAL: frozenset({_S.QUEUED, _S.DECLINED, _S.CANCELED, _S.FAILED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELED: frozenset(),
    _S.DECLINED: frozenset(),
}
MAX_TEXT_CHARACTERS = 8_000
Outcome = Literal["succeeded", "failed", "canceled", "waiting", "handed_back", "lost", "gone"]


def plain(text: str) -> str:
    """Return a text from outside in a form that every database can store and every page and terminal can show unchanged."""
    return escapes.plain(text[:MAX_TEXT_CHARACTERS].replace("\0", "\ufffd"))


class JobRetry(msgspec.Struct, frozen=True):
    """A step that failed with an error that may go away by itself, and is repeated."""

    step: Step
    number: int
    """The number of the next try: 2 for the first repetition."""
    tries: int
    at: datetime
    """When the next try starts."""
    reason: str
    """The error of the last try."""


OriginKind = Literal["pull_request", "merge", "schedule", "drift", "discovery"]


_ORIGIN_WORDS: dict[OriginKind, str] = {
    "pull_request": "Pull request",
    "merge": "Merge of",
    "schedule": "Schedule",
    "drift": "Drift check",
    "discovery": "Discovery rule",
}


class JobOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """What made the server create a job, if it was no request of a person for just this job."""

    kind: OriginKind
    name: str
    """What people call it: `acme/network #12`, or the name of a schedule."""
    id: str = ""
    """The id of the pull request, the schedule or the discovery rule."""
    url: str = ""
    """Where it is on the forge; empty for what is only in Terracrew."""
    title: str = ""
    author: str = ""
    """The name, on the forge, of the author of the pull request."""
    commit: str = ""
    """The newest commit of the pull request, the commit that it was merged as, or that in which a folder was found."""
    base_commit: str = ""
    """The commit of the target branch that the pull request was merged with for the plan."""

    @property
    def words(self) -> str:
        """What it is, for people: `Pull request acme/network #12`."""
        return f"{_ORIGIN_WORDS[self.kind]} {self.name}"


CHOSEN = 0
"""The number by which a job knows the plan of another job that it was created to apply. Attempts are counted from 1."""


def queued_by(created_by: str, plan_queued_by: str, plan_attempt: int | None) -> frozenset[str]:
    """Return the ids of those who count as having queued a job when its present plan is approved.

    While it has the plan of a PLAN job, the author of that plan does, and not the person who let it be applied: they have looked at
    what somebody else has planned. A plan that it makes itself is due to both.
    """
    if plan_queued_by and plan_attempt == CHOSEN:
        return frozenset({plan_queued_by})
    return frozenset({created_by, plan_queued_by} - {""})


class Job(PlanOptions, msgspec.Struct, frozen=True):
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
    """Whether a person must approve its plan before anything is changed."""
    approval_seconds: int = 604_800
    interrupted: Interrupted = "ask"
    """What happens after its engine was cut short in a change: the choice of the module or group when the job was created."""
    is_destroy_plan: bool = False
    """Whether a PLAN shows what a DESTROY would destroy."""
    is_fresh: bool = False
    """Whether it runs `init` even if nothing that `init` reads has changed, because the request or the module says so."""
    has_own_source: bool = False
    """Whether it was asked to run another source than its module's."""
    needs_plan_json: bool = False
    """Whether its plan is kept as JSON without sensitive values, because a command line has saved the plan and may show it."""
    plan_attempt: int | None = None
    """The attempt whose saved plan the job waits with, or continues with."""
    runner_id: str | None = None
    instance_id: str | None = None
    cancel_mode: CancelMode | None = None
    source_digest: str = ""
    source_description: str = ""
    source_commit: str = ""
    """The commit that it runs, if its source is a git repository. All of its attempts use the same one."""
    source_revision: str = ""
    """What led to this commit or version: `tag v1.2.0`, `branch main`."""
    source_moved_from: str = ""
    """The commit that the same tag was in an earlier job of the module, if the tag has moved since."""
    engine_version: str = ""
    """The version of the engine that its current attempt runs with."""
    pinned_engine_version: str = ""
    """The version that all of its attempts run with, resolved once from the range of its module; empty if that accepts any."""
    limits: JobLimits = msgspec.field(default_factory=JobLimits)
    """How long it may run, and what it may use: the smallest limits of the request, the module and its groups when it was created."""
    cloud: CloudIdentities = msgspec.field(default_factory=CloudIdentities)
    """As whom it logs in to clouds: the identities of its module and of the groups above when it was created."""
    dispatcher: DispatcherChoice = msgspec.field(default_factory=DispatcherChoice)
    """What it asks of the dispatcher of its runner: the choice of its module and of the groups above when it was created."""
    retry: JobRetry | None = None
    """Set while a step that failed waits to be repeated, or is repeated."""
    plan: PlanSummary | None = None
    cost: PlanCost | None = None
    """What a hook after the plan has said of the monthly cost; null if none did."""
    message: str = ""
    imports_chosen_by: str = ""
    """Who let it plan again with other imports, if somebody did: they count as its creator, too, when a plan is approved."""
    cause_job_id: str | None = None
    """The job of another module whose change of an output caused this one."""
    group_run_id: str | None = None
    """The run of a whole group that this job is a part of."""
    origin: JobOrigin | None = None
    """What made the server create it; null for a job that somebody asked for."""
    plan_job_id: str | None = None
    """The PLAN job whose plan it was created to apply."""
    plan_queued_by: str = ""
    """Who queued that PLAN job."""
    replanned_by: list[str] = []
    """The ids of those who let it plan again, or who wrote or merged its pull request. They count as people who queued it."""
    has_lost_inputs: bool = False
    """Whether it had inputs of its own that a database which was set back has lost. It can end, and is not queued again."""
    failure_kind: str = ""
    """Why it failed, if that has a name: `time_limit`, `out_of_memory`, `process_limit`, `disk_full`, `state_locked`, `state_moved`,
    `hook`, `inputs`, `lost` or `set_back`."""
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def has_merge(self) -> bool:
        """Whether its source is the result of a merge that the server has made."""
        return isinstance(self.source, GitSource) and bool(self.source.merge)

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def only_destroys(self) -> bool:
        """Return whether it destroys everything, or plans to do so."""
        return self.type is JobType.DESTROY or self.is_destroy_plan

    @property
    def queued_by(self) -> frozenset[str]:
        """The ids of those who count as having queued it when its present plan is approved."""
        return queued_by(self.created_by, self.plan_queued_by, self.plan_attempt)

    @property
    def is_active(self) -> bool:
        return self.status in ACTIVE

    def to(self, status: JobStatus, now: datetime, **changes: object) -> "Job":
        """Move along the table, keeping what each status implies about times and owner."""
        if status not in TRANSITIONS[self.status]:
            raise Conflict(f"job {self.number} is {self.status} and cannot become {status}", status=self.status)
        if status in TERMINAL:
            changes |= {"finished_at": now, "retry": None}
        if status is JobStatus.QUEUED:
            changes |= {
                "attempt": self.attempt + 1,
                "queued_at": now,
                "runner_id": None,
                "instance_id": None,
                "claimed_at": None,
                "started_at": None,
                "engine_version": self.pinned_engine_version,
                "plan": None,
                "cost": self.cost if changes.get("plan") is not None else None,
                "plan_attempt": None,
                "retry": None,
            } | changes
        return msgspec.structs.replace(self, status=status, **changes)


UNKNOWN_VERSION = -1
"""The `begun_state_version` of an attempt that has begun at a time that the database has lost, if the state has changed since."""


class Attempt(msgspec.Struct, frozen=True):
    job_id: str
    number: int
    runner_id: str
    instance_id: str
    claimed_at: datetime
    mark: int = 0
    lines: int = 0
    log_bytes: int = 0
    """How many bytes of its log are stored, before compression. It is above the limit of the settings if the log was cut."""
    started_at: datetime | None = None
    begun_at: datetime | None = None
    begun_state_version: int | None = None
    ended_at: datetime | None = None
    outcome: Outcome | None = None
    reason: str = ""
    is_gone: bool = False
    heard_at: datetime | None = None
    """The last contact of any server with its executor, or with its runner while that reported it; to a few seconds."""
    lost_at: datetime | None = None
    """Since when the attempt counts as lost after its `begin`. Its job waits meanwhile."""
    is_in_doubt: bool = False
    """Whether no state may record something that it changed. Every plan of its module then waits for approval."""
    is_change_ended: bool = False
    """Whether its engine is known to have ended the mutating command by itself, or never to have started it.

    Events arrive in order, so every state that the engine wrote before that has arrived, too.
    """
    has_result: bool = False
    """Whether its result has arrived; nothing is accepted after that."""
    has_unreadable_state: bool = False
    """Whether the last state of it that arrived cannot be read."""
    inputs_sha256: str = ""
    """The hash of the engine, the inputs and the environment that it was granted with."""
    may_have_begun: bool = False
    """Whether it counts as begun although no `begin` is known: the database was set back while it ran, and it has not reported
    since."""
    may_hold_lock: bool = False
    """Whether it may have left the lock of its module's own backend behind. The lock of Terracrew's backend ends with an attempt."""
    received_at: datetime | None = None
    """When the last of its events arrived."""
    is_delivered: bool = False
    """Whether its runner reported, before a result came, that all of its processes have exited and everything that they left has
    arrived."""
    is_output_missing: bool = False
    """Whether its machine crashed, so that the end of its output may not have reached the disk, or its log was cut at a limit."""

    @property
    def is_log_complete(self) -> bool:
        """Whether everything that it did is known to be in its log. `lost_resources/store` has the same as SQL."""
        return self.has_result or (self.is_delivered and not self.is_output_missing)

    @property
    def may_have_changed(self) -> bool:
        """Whether it has permission to apply, or may have got it from the database before that was set back."""
        return self.begun_at is not None or self.may_have_begun

    def end(self, outcome: Outcome, now: datetime, reason: str = "") -> "Attempt":
        return msgspec.structs.replace(self, outcome=outcome, ended_at=now, reason=plain(reason))


class GivenApproval(msgspec.Struct, frozen=True):
    """What one person, or one service account, has approved."""

    by_id: str
    by: str
    at: datetime
    doubts: list[AttemptRef] = []
    """The attempts in doubt that they have looked at."""
    comment: str = ""
    """What they wrote about it."""
    policies: list[str] = []
    """The policies that had denied the plan when they approved it (`id@version`). For others, their approval does not count."""


class Plan(msgspec.Struct, frozen=True):
    """A plan that was saved with its workspace, and the decision about it."""

    job_id: str
    attempt: int
    """Which made it, or CHOSEN."""
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
    doubts: list[AttemptRef] = []
    """The attempts in doubt that its approvers have looked at: the approval does not apply to any other doubt."""
    approvals: list[GivenApproval] = []
    """Who has approved it. It is decided when there are as many as its module requires."""
    why: str = ""
    """Why a person has to look at it."""
    applied_by: int | None = None
    """The attempt that began with it: there is one at most."""
    plan_sha256: str = ""
    """The hash of the plan itself, without its workspace: nothing else may be applied with its approval."""
    made_job_id: str = ""
    made_attempt: int = 0
    """The attempt that made it: this job's, or that of a PLAN job, if this is the copy of its plan that another job applies."""
    taken_by: str = ""
    """The id of the job that applies it, if this is the plan of a PLAN job."""
    is_kept: bool = True
    """Whether the stored plan is there, and belongs to this row."""

    @property
    def is_chosen(self) -> bool:
        """Whether a PLAN job made it, and its job was created to apply it."""
        return self.attempt == CHOSEN


class StepRow(msgspec.Struct, frozen=True):
    name: Step
    status: Literal["PENDING", "RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"]
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit_code: int | None = None
    attempt: int | None = None
    """The attempt that ran the step, in the view of a job; with a saved plan, some steps ran in an earlier attempt."""
    kept_from: int | None = None
    """The number of the earlier job of the module whose result of this step is used, if the step was skipped for that reason."""


class Note(msgspec.Struct, frozen=True):
    """A note about an event that arrived too late to change anything."""

    attempt: int
    text: str
    created_at: datetime


class ApplyPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request to apply the plan of a PLAN job."""

    is_destroy: bool = False
    """True for a plan that destroys everything, which a DESTROY applies; such a plan is refused without it."""


class ApprovedJob(Job, frozen=True, kw_only=True):
    """A job after an approval of its plan. It still waits if `approvals_counted` is less than `approvals_needed`."""

    approvals_needed: int
    approvals_counted: int


OpenStatus = Literal["QUEUED", "CLAIMED", "PROCESSING", "AWAITING_APPROVAL"]
"""The statuses of jobs that have not ended."""
_Id = Annotated[str, msgspec.Meta(max_length=64)]


class CancelMany(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    mode: CancelMode = "interrupt"
    module: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    """Path or id of a module: only its jobs."""
    group: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    """Path or id of a group: only jobs of modules below it."""
    status: OpenStatus | None = None
    after: _Id = ""
    """Continue after this job: the `next` of the previous answer."""
    up_to: _Id | None = None
    """The newest job to cancel. Jobs that were queued after the count are not canceled."""
    count_only: bool = False
    """Only count the jobs that this request would cancel."""


class CanceledMany(msgspec.Struct, frozen=True, kw_only=True):
    matching: int = 0
    """The number of jobs that match this request."""
    ended: int = 0
    """The number of jobs that were not running and are now CANCELED."""
    asked: int = 0
    """The number of running jobs that were asked to end."""
    up_to: str | None = None
    """The newest job among them."""
    next: str | None = None
    """Send it as `after` to continue; null when nothing is left."""


class NewJob(PlanOptions, msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The request for a new job."""

    type: JobType
    priority: Priority | None = None
    """A job with a higher priority runs first. None: the module's own. One above 10 and above the module's own needs the permission
    to change the module."""
    source: Source | None = None
    """The source of this job instead of the module's own. It needs the permission to change the module."""
    needs_approval: bool = False
    """Whether the plan needs approval even if the module does not require it."""
    is_destroy_plan: bool = False
    """Only for a PLAN: show what a DESTROY would destroy, and change nothing."""
    is_fresh: bool = False
    """Run `init` even if nothing that it reads has changed since an earlier job of the module."""
    inputs: dict[str, Any] = {}
    """Variables of this job alone. They take precedence over those of the module and of the groups above it, and need the
    permission to change the module."""
    environment: dict[str, str] = {}
    """Environment variables of this job alone, likewise."""
    import_lost: ImportLost | None = None
    """What the plan imports: resources that an attempt created before it was cut short, and that no state records."""
    limits: LimitsChange | None = None
    """Limits of this job alone. They can only be smaller than those of the module and of the groups above it."""

    def __repr__(self) -> str:
        return f"NewJob({self.type})"


class JobChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change of a job that waits."""

    priority: Priority
    """A job with a higher priority runs first. One above 10 and above the module's own needs the permission to change the module."""


class CancelRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    mode: CancelMode = "interrupt"


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    plan: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    """The number of the attempt that made the plan which you have looked at; 0 if the job was created to apply the plan of a PLAN."""
    doubts: Annotated[list[AttemptRef], msgspec.Meta(max_length=1_000)] = []
    """The attempts that put the module in doubt, as the job's `doubts` show them: you have looked at these, too."""
    comment: Annotated[str, msgspec.Meta(max_length=4_000)] = ""
    """What you want to say about it; it is shown on the job with your name."""


class Replan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    plan: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    """The number of the attempt that made the plan which is not wanted."""
    import_lost: ImportLost | None = None
    """What the new plan imports: resources that an attempt created before it was cut short, and that no state records."""


class Decline(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    plan: Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
    reason: Annotated[str, msgspec.Meta(max_length=4_000)] = ""
