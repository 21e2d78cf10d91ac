"""Jobs as people and programs see them: with their attempts, the reason why they wait, and what is known of them."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.failures import FailureClass
from terracrew.api.jobs import Attempt, Job, Note, Outcome, Plan, StepRow
from terracrew.api.locks import Lock
from terracrew.api.lost_resources import LogGap, LoggedChange
from terracrew.api.policies import PolicyCheck
from terracrew.plan_diff.model import AttributeDiff, ResourceDiff
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import Step


class HeldLock(msgspec.Struct, frozen=True):
    """The attempt that may have left the lock behind: its engine was killed, or its end is not known."""

    job_id: str
    number: int
    """The number of the job."""
    attempt: int
    ended_at: datetime


class ModuleHold(msgspec.Struct, frozen=True):
    """A hold because of which a module is held or in doubt. Its reason may name other organizations, so it is not here."""

    hold_id: str
    set_back_to: datetime | None
    started_at: datetime
    is_held: bool
    is_in_doubt: bool
    evidence: str


class HeldModuleListed(msgspec.Struct, frozen=True):
    id: str
    path: str
    organization: str
    is_held: bool
    is_in_doubt: bool
    evidence: str
    """What is known of changes that the database has lost; empty if the module only may have been changed."""


class Hold(msgspec.Struct, frozen=True):
    id: str
    reason: str
    """What showed that the database was set back, or who asked for the hold."""
    is_set_back: bool
    """Whether the database is known to have been set back. A person may hold a server for other reasons."""
    set_back_to: datetime | None
    """The time of the newest point of its history that the database has. What happened after it is not known."""
    started_at: datetime
    is_open: bool = True
    released_at: datetime | None = None
    released_by: str | None = None


class HoldView(msgspec.Struct, frozen=True):
    """Whether the server hands out changes, and what a person has to look at before it does."""

    is_held: bool
    hold: Hold | None = None
    """The open hold; None if the server is not held."""
    held_modules: int = 0
    """How many modules nobody has released."""
    changed_modules: int = 0
    """How many modules are known to have been changed since the time that the database was set back to."""
    modules: list[HeldModuleListed] = []
    """The first 500, those first that are known to have been changed."""


class ModuleState(msgspec.Struct, frozen=True):
    """What a module's current state holds."""

    version: int
    serial: int
    created_at: datetime
    resources: int | None
    """How many resource instances; None where that is not known, as in a state that its engine has encrypted."""
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


class RunningLimit(msgspec.Struct, frozen=True):
    """How many jobs of the modules in and below a group may run at once."""

    group: str
    """The path of the group; empty for the organization."""
    max_running_jobs: int


class Placement(msgspec.Struct, frozen=True):
    runner_path: str | None
    """The one runner that may have its jobs, also if it was removed; null means automatic selection."""
    runner_instance_name: str | None
    """The name of the one instance that may have its jobs."""
    tags: list[str]
    """A runner needs all of these tags to have its jobs."""
    limits: list[RunningLimit]
    """The limits of the groups that the module is in, the nearest first. All of them apply."""


class LogEvent(msgspec.Struct, frozen=True):
    """A piece of a log."""

    n: int
    time: float
    step: str
    stream: int
    text: str
    attempt: int = 0
    """The attempt that printed it. A line between the logs of two attempts has the number 0 in the later one."""


class LogHit(msgspec.Struct, frozen=True):
    """A line of a log in which something was found."""

    attempt: int
    """The attempt that printed it. A line between the logs of two attempts belongs to the later one."""
    line: int
    """Its number in the log of its attempt, from 1; 0 for a line between two attempts."""
    run_line: int
    """Its number in the log of the whole run, as the job's page counts."""
    n: int
    """The event in which it starts."""
    time: float
    step: str
    stream: int
    text: str
    """The line without colours, or the part of a long line around the first match."""
    matches: list[tuple[int, int]]
    """Where the matches in `text` begin and end, in characters; the first ones, if there are many."""
    skipped: int = 0
    """How many characters of the line come before `text`."""
    before: list[str] = []
    """The lines before it, as many as were asked for."""
    after: list[str] = []
    """The lines after it, as many as were asked for and are stored."""


class LogFound(msgspec.Struct, frozen=True):
    """A page of what was found in a log, in the order of the log."""

    hits: list[LogHit]
    after: str
    """The place up to which the log was searched: `<attempt>.<line>`. The next page begins after it."""
    is_end: bool
    """Whether everything that is stored was searched."""
    is_live: bool
    """Whether the job may still print something."""
    searched: int
    """How many lines of the run come before that place."""
    lines: int
    """How many lines the run has."""


class PlanDiff(msgspec.Struct, frozen=True):
    """A page of the diff of a plan, destructive changes first. Sensitive values are in none of its fields."""

    attempt: int | None = None
    """The attempt that made the plan. Null if there is no diff: the job has made no plan with changes, or its log was removed."""
    counts: dict[str, int] = {}
    """Action → number of resources in the whole diff."""
    drift: int = 0
    """How many resources were changed outside of the engine."""
    left_out: list[str] = []
    """Says in sentences what the diff does not contain, and why."""
    outputs: list[AttributeDiff] = []
    outputs_left_out: int = 0
    total: int = 0
    """How many resources match the action and the search."""
    items: list[ResourceDiff] = []
    next: str | None = None


class Reason(msgspec.Struct, frozen=True):
    """Why a job waits: a code for programs, a text for people, and the address of the page where they can act."""

    code: Literal[
        "no_assignment",
        "none_online",
        "no_credential",
        "all_full",
        "module_busy",
        "locked",
        "instance_absent",
        "wrong_tag",
        "no_dispatcher",
        "no_engine",
        "capped",
        "plan_runner",
        "offered",
        "starting",
        "silent",
        "retry",
        "settling",
        "waking",
        "wake_refused",
        "lost",
        "quarantine",
        "held",
        "dependency",
        "approval",
        "in_doubt",
        "undecryptable",
        "damaged",
    ]
    text: str
    """The text stays the same while the reason is the same, so that a person who follows the job sees it only once."""
    link: str = ""
    since: datetime | None = None
    until: datetime | None = None
    """When the reason ends without a person's action."""


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
    failure_class: FailureClass | None = None
    """Who can mend what kept it from succeeding; null unless it has ended without success."""
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
    policy_needs: list[str] = msgspec.field(default_factory=list[str])
    """What policies ask for before the plan that waits is applied, because they deny it; in words."""
    policy_checks: list[PolicyCheck] = msgspec.field(default_factory=list[PolicyCheck])
    """What each policy has said last about its plan."""
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

    @property
    def is_in_doubt(self) -> bool:
        """Whether its module is in doubt, because of an attempt or since the database was set back."""
        return bool(self.doubts) or any(each.is_in_doubt for each in self.holds)

    @property
    def approval_count(self) -> tuple[int, int]:
        """How many approvals of the plan that waits count, and how many it needs."""
        return self.approvals_counted or 0, self.approvals_needed or 1

    @property
    def seen_doubts(self) -> list[AttemptRef]:
        """What the approval of somebody who has looked at the job names as its doubts."""
        attempts = [AttemptRef(each.job_id, each.attempt) for each in self.doubts]
        return attempts + [AttemptRef(each.hold_id, 0) for each in self.holds if each.is_in_doubt]
