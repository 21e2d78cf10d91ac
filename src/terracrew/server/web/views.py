"""What pages show, read for them in one go: rows of lists, and the job page."""

from datetime import datetime
from typing import Any

import msgspec

from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import JobType, Source, Step
from terracrew.server.jobs.model import TERMINAL, JobStatus, JobView, Outcome, Reason
from terracrew.server.runners.model import RunnerStatus, RunnerView
from terracrew.server.web import words
from terracrew.server.web.words import Badge


class Nav(msgspec.Struct, frozen=True):
    """The counts beside the main menu."""

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
    """By status, and `ALL`, of what the search leaves."""
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

    @property
    def is_terminal(self) -> bool:
        return self.status in TERMINAL

    @property
    def badge(self) -> Badge:
        is_lost = self.reason is not None and self.reason.code == "lost"
        return words.job_badge(self.status, self.step, is_canceling=self.cancel_mode is not None, is_lost=is_lost)


class JobsPage(msgspec.Struct, frozen=True):
    rows: list[JobRow]
    status: str
    module: str
    before: str | None
    """Where the next, older page goes on."""
    is_first: bool


class OutputRow(msgspec.Struct, frozen=True):
    name: str
    text: str | None
    """None where it is sensitive: such a value never reaches a page."""


class JobPage(msgspec.Struct, frozen=True):
    view: JobView
    started_by: str
    runners: dict[int, str]
    """Attempt → runner and instance, as people call them."""
    outputs: list[OutputRow] | None
    may_cancel: bool
    may_run: bool
    shown: int
    """The attempt whose log is shown."""

    @property
    def step(self) -> Step | None:
        return next((step.name for step in self.view.steps if step.status == "RUNNING"), None)

    @property
    def badge(self) -> Badge:
        job, reason = self.view, self.view.reason
        is_lost = reason is not None and reason.code == "lost"
        return words.job_badge(job.status, self.step, is_canceling=job.cancel_mode is not None, is_lost=is_lost)

    @property
    def is_log_finished(self) -> bool:
        return self.view.is_terminal or self.shown != self.view.attempt


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

    @property
    def badge(self) -> Badge | None:
        return None if self.job_status is None else words.job_badge(self.job_status, self.job_step)


class ModulesPage(msgspec.Struct, frozen=True):
    groups: list[tuple[str, list[ModuleRow]]]
    search: str
    count: int
