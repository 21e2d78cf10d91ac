"""A job, its attempts and its run as people and programs see them."""

from datetime import datetime

import msgspec

from terracrew.protocol.spec import Step
from terracrew.server.jobs.lost_resources.model import LogGap, LoggedChange
from terracrew.server.jobs.model import Attempt, Job, Lock, Note, Outcome, Plan, StepRow
from terracrew.server.runs.held_lock import HeldLock
from terracrew.server.runs.holds import ModuleHold
from terracrew.server.runs.placement import Placement
from terracrew.server.scheduling.model import Reason


class ModuleState(msgspec.Struct, frozen=True):
    """What a module's current state holds."""

    version: int
    serial: int
    created_at: datetime
    resources: int | None
    """How many resource instances; None where it was written by an executor that did not count them."""
    is_own: bool
    """Whether the attempt in question wrote it."""


class AttemptReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about an attempt, for the person who decides what happens next."""

    job_id: str
    number: int
    """The number of the job."""
    attempt: int
    runner_path: str | None
    instance_name: str | None
    claimed_at: datetime
    started_at: datetime | None
    begun_at: datetime | None
    may_have_begun: bool
    """Whether the database was set back since, and does not know whether it began to change anything."""
    heard_at: datetime
    """When the server last had contact with it, to a few seconds."""
    lost_at: datetime | None
    ended_at: datetime | None
    outcome: Outcome | None
    reason: str
    is_gone: bool
    is_in_doubt: bool
    lines: int
    states: int
    """How many states it wrote that have arrived."""
    serial: int | None
    """The serial of the newest of them."""
    state_at: datetime | None
    module_state: ModuleState | None = None
    """The module's current state; another attempt may have written it."""
    step: Step | None = None
    """The last one that it was in."""
    last_line: str = ""
    """The last line of its log, without colours."""
    may_miss_state: bool = False
    """Whether a state may be missing: its engine changed something and is not known to have ended by itself."""
    made: list[LoggedChange] = []
    """The resources that its log names as changed after the last state that has arrived."""
    is_made_cut: bool = False
    """Whether that part of the log is too long, so that only its end was read."""
    is_complete: bool = True
    """Whether everything that it changed is known. Otherwise `gap` says from when on nothing is known, if it was cut short."""
    gap: LogGap | None = None


class LapsedApproval(msgspec.Struct, frozen=True):
    """An approval that was given and does not count any more."""

    by: str
    why: str
    """The rest of a sentence that starts with the name: `may not approve plans here any more`."""


class RunPart(msgspec.Struct, frozen=True):
    """One attempt of a run, and what happened after it before the next one."""

    attempt: int
    text: str
    """For example: Planned in 2.1 s · waited 19 min for approval · approved by admin. It is empty while there is nothing to report."""
    is_over: bool
    """Whether nothing more can happen to it: the attempt has ended, and what waited for a person has been decided."""
    at: datetime | None = None
    """When it was over."""


class JobListed(Job, frozen=True, kw_only=True):
    """A job in a list."""

    module_path: str
    runner_path: str | None
    """The runner of its last attempt; null if it has none yet."""
    instance_name: str | None
    reason: Reason | None = None


class JobView(JobListed, frozen=True, kw_only=True):
    """A job as people and programs see it."""

    engine: str
    cause_number: int | None = None
    """The number of the job `cause_job_id`."""
    attempts: list[Attempt]
    steps: list[StepRow]
    notes: list[Note]
    lock: Lock | None
    placement: Placement
    """Which runners may have the jobs of its module, and the limits of the module's groups."""
    kept_plan: Plan | None = None
    """The plan that the job waits with or continued with."""
    approvals_needed: int | None = None
    """How many people must approve the plan that the job waits with; `kept_plan.approvals` has those who did."""
    approvals_counted: int | None = None
    """How many different people have approved it until now, as far as their approvals count."""
    approvers: list[str] = msgspec.field(default_factory=list[str])
    """The names of those whose approval would count now, 50 at most. Administrators of the server may approve, too, unless a rule
    says otherwise, and are not named for that reason alone. Nobody's would count if the plan is stale."""
    lapsed_approvals: list[LapsedApproval] = msgspec.field(default_factory=list[LapsedApproval])
    """Approvals that do not count any more."""
    is_plan_applicable: bool = False
    """Whether another job can apply the plan of this PLAN job, as it is (`POST /jobs/{job}/apply`)."""
    plan_problem: str = ""
    """Why no other job can apply the plan that this PLAN job has made, although it would change something."""
    taken_by_number: int | None = None
    """The number of the job that applies the plan of this PLAN job (`kept_plan.taken_by`)."""
    plan_job_number: int | None = None
    """The number of the PLAN job whose plan it was created to apply (`plan_job_id`)."""
    is_plan_stale: bool = False
    """Whether the module's state has changed since that plan was made: it cannot be approved any more."""
    doubts: list[AttemptReport] = msgspec.field(default_factory=list[AttemptReport])
    """Why its module is in doubt, for the person who approves a plan."""
    holds: list[ModuleHold] = msgspec.field(default_factory=list[ModuleHold])
    """Why its module is held or in doubt since the server's database was set back. An approval names each of them among its doubts,
    as the job `hold_id` with attempt 0."""
    run: list[RunPart] = msgspec.field(default_factory=list[RunPart])
    """What happened to each attempt, as one sequence."""
    used_by: list[str] = msgspec.field(default_factory=list[str])
    """The paths of the modules that use outputs of the module, if the job destroys everything in it or plans to do so. Those that you
    may not see are counted, but not named."""
    held_lock: HeldLock | None = None
    """The attempt that may have left the lock of the module's own backend behind. The engine fails if the lock is still held."""
