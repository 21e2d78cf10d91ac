"""What pages show, read for them in one go: rows of lists, and the job page."""

from datetime import datetime
from typing import Any

import msgspec

from terracrew import plan_words
from terracrew.protocol.events import ResourceChange
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import JobType, Source, Step
from terracrew.server.dashboard import words
from terracrew.server.dashboard.words import Badge
from terracrew.server.jobs.model import TERMINAL, AttemptReport, JobStatus, JobView, Lock, Outcome, Reason
from terracrew.server.modules.model import Module
from terracrew.server.runners.model import RunnerStatus, RunnerView


class Nav(msgspec.Struct, frozen=True):
    """The counts beside the main menu, of what the reader may see. Beyond a bound nothing is counted."""

    organization: str = ""
    to_approve: int = 0
    open_jobs: int = 0
    modules: int = 0
    runners: int = 0


class RunnerRow(msgspec.Struct, frozen=True):
    runner: RunnerView
    may_change: bool

    @property
    def capacity(self) -> int:
        """How many jobs its connected instances take together."""
        return sum(min(each.capacity, self.runner.max_jobs) for each in self.connected)

    @property
    def connected(self) -> list[Any]:
        return [each for each in self.runner.instances if each.status is not RunnerStatus.OFFLINE]

    @property
    def badge(self) -> Badge:
        return words.runner_badge(self.runner.status)


class RunnersPage(msgspec.Struct, frozen=True):
    rows: list[RunnerRow]
    counts: dict[str, int]
    """The number of matching jobs, by status and for `ALL`."""
    status: RunnerStatus | None
    search: str
    page: int
    pages: int


class JobRow(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    module_id: str
    module_path: str
    number: int
    type: JobType
    status: JobStatus
    attempt: int
    created_by: str
    created_at: datetime
    queued_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    cancel_mode: CancelMode | None = None
    message: str = ""
    runner_path: str | None = None
    instance_name: str | None = None
    step: Step | None = None
    """The one that runs now."""
    earlier: Outcome | None = None
    """How the attempt before this one ended."""
    reason: Reason | None = None
    is_destroy_plan: bool = False

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def badge(self) -> Badge:
        return words.job_badge(self.status, self.step, is_canceling=self.cancel_mode is not None, reason=self.reason)


class JobsPage(msgspec.Struct, frozen=True):
    rows: list[JobRow]
    status: str
    module: str
    before: str | None
    """The start of the next, older page."""
    is_first: bool


class OutputRow(msgspec.Struct, frozen=True):
    name: str
    text: str | None
    """None where it is sensitive: such a value never reaches a page."""


class QuarantineRow(msgspec.Struct, frozen=True):
    """A state that came too late to be taken over by itself, and what it would replace."""

    id: str
    job_id: str
    job_number: int
    attempt: int
    origin: str
    serial: int
    lineage: str
    size: int
    created_at: datetime
    runner_path: str | None = None
    problem: str = ""
    current_serial: int | None = None
    current_lineage: str | None = None
    current_version: int | None = None
    current_at: datetime | None = None
    may_decide: bool = False

    @property
    def warning(self) -> str:
        """What to think of before it is adopted."""
        if self.current_lineage is None:
            return ""
        if self.lineage != self.current_lineage:
            return "it is of another lineage than the current one, so it describes other things"
        if self.current_serial is not None and self.serial <= self.current_serial:
            return "it is not newer than the current one, so that adopting it takes the module back"
        return ""


class JobPage(msgspec.Struct, frozen=True):
    view: JobView
    started_by: str
    runners: dict[int, str]
    """Attempt → runner and instance, as people call them."""
    outputs: list[OutputRow] | None
    may_cancel: bool
    may_run: bool
    may_approve: bool
    shown: int | None
    """The attempt whose log is shown alone; None shows that of the whole run."""
    lost: AttemptReport | None
    """The current attempt, if it is lost in the middle of a change."""
    doubts: list[AttemptReport]
    """The attempts that were given up and are not known to be gone, which put the module in doubt."""
    quarantine: list[QuarantineRow]
    approval_refusal: str | None = None
    """Why the reader may not approve, although their role would let them."""

    @property
    def plan(self) -> dict[str, Any]:
        return {} if self.view.plan is None else msgspec.structs.asdict(self.view.plan)

    @property
    def approve_word(self) -> str:
        """What the button that approves says."""
        return plan_words.approve(self.plan, self.view.type)

    @property
    def is_destructive(self) -> bool:
        return plan_words.is_destructive(self.plan, self.view.type)

    @property
    def destroy_count(self) -> int:
        """How many resources the plan destroys, replacements among them."""
        return 0 if self.view.plan is None else self.view.plan.destroy + self.view.plan.replace

    @property
    def destroyed(self) -> list[ResourceChange]:
        """What the plan destroys, replacements first."""
        return [each for each in self.changes if each.action in ("replace", "delete")]

    @property
    def changes(self) -> list[ResourceChange]:
        """The plan in the order in which it is read."""
        rank = {action: at for at, action in enumerate(plan_words.ORDER)}
        found = [] if self.view.plan is None else self.view.plan.resources
        return sorted(found, key=lambda each: rank[each.action])

    @property
    def step(self) -> Step | None:
        return next((step.name for step in self.view.steps if step.status == "RUNNING"), None)

    @property
    def badge(self) -> Badge:
        job = self.view
        return words.job_badge(job.status, self.step, is_canceling=job.cancel_mode is not None, reason=job.reason)

    @property
    def has_history(self) -> bool:
        """Whether its attempts have a history worth showing."""
        return len(self.view.attempts) > 1 or bool(self.view.notes) or any(each.lost_at for each in self.view.attempts)

    @property
    def has_panel(self) -> bool:
        """Whether why it waits is told by a panel of its own, with what to do about it."""
        return self.lost is not None or bool(self.quarantine) or self.view.status is JobStatus.AWAITING_APPROVAL

    @property
    def is_log_finished(self) -> bool:
        return self.view.is_terminal or self.shown not in (None, self.view.attempt)

    @property
    def told(self) -> dict[int, str]:
        """Attempt → what became of it, in words."""
        return {each.attempt: each.text for each in self.view.run}

    @property
    def is_unheard(self) -> bool:
        """Whether the job's attempt is not in contact, so that its current step is unknown."""
        return self.view.reason is not None and self.view.reason.code in ("lost", "silent")


class ModuleRow(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    path: str
    name: str
    group: str
    description: str
    engine: str
    source: Source
    state_version: int
    may_run: bool = False
    job_id: str | None = None
    job_number: int | None = None
    job_type: JobType | None = None
    job_status: JobStatus | None = None
    job_at: datetime | None = None
    job_step: Step | None = None
    needs_approval: bool = False
    quarantined: int = 0
    is_in_doubt: bool = False
    orphaned_at: datetime | None = None
    """Since when the attempt that holds its lock counts as lost."""

    @property
    def badge(self) -> Badge | None:
        return None if self.job_status is None else words.job_badge(self.job_status, self.job_step)


class ModulePage(msgspec.Struct, frozen=True):
    module: Module
    lock: Lock | None
    doubts: list[AttemptReport]
    quarantine: list[QuarantineRow]
    jobs: list[JobRow]
    may_run: bool


class ModulesPage(msgspec.Struct, frozen=True):
    groups: list[tuple[str, list[ModuleRow]]]
    search: str
    count: int
    """How many match; beyond a bound they are not counted."""
    after: str = ""
    """The path behind which this page begins."""
    next: str = ""
    """The path behind which the next page begins."""
