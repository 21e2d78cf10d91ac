"""Rows of lists of jobs, on the jobs page and on the pages of runners and modules."""

from datetime import datetime

import msgspec

from terracrew.errors import Invalid, NotFound
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import JobType, Step
from terracrew.server.dashboard import words
from terracrew.server.dashboard.words import Badge
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import reads, service
from terracrew.server.jobs.model import TERMINAL, Job, JobStatus, Outcome
from terracrew.server.modules import reads as module_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import lists, reasons
from terracrew.server.runs.reasons import Watch
from terracrew.server.scheduling.model import Reason

PAGE_ROWS = 50
MAX_SEARCHED_MODULES = 20
"""How many matching modules are searched for jobs while a path is typed."""
MAX_NUMBER_DIGITS = 19


class JobRow(msgspec.Struct, frozen=True):
    id: str
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
    """The step that runs now."""
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
    """The last job of this page, if older ones follow."""
    is_first: bool


async def read_page(
    tx: Tx, who: Principal, status: str, module: str, before: str | None, watch: Watch, count: int = PAGE_ROWS
) -> JobsPage:
    """Return the newest jobs that are older than `before`. `status` is that of a job, `open`, or empty for all."""
    module_id = None
    if module:
        try:
            module_id = await lists.visible_module(tx, who, module)
        except Invalid:  # the text in the field is not a valid path
            module_id = None
    chosen = JobStatus(status) if status and status != "open" else None
    wanted = reads.JobFilter(chosen, status == "open", module_id, before or "")
    if module and module_id is None:
        rows = await _searched(tx, who, module, wanted, watch, count + 1)
    else:
        rows = await _rows(tx, who, wanted, watch, count + 1)
    made = rows[:count]
    return JobsPage(made, status, module, made[-1].id if len(rows) > count else None, before is None)


async def read_open(tx: Tx, who: Principal, watch: Watch, limit: int = 20) -> list[JobRow]:
    """Return the newest jobs that have not ended."""
    return await _rows(tx, who, reads.JobFilter(is_open=True), watch, limit)


async def read_these(tx: Tx, job_ids: list[str], watch: Watch) -> list[JobRow]:
    """Return these jobs, newest first. The caller has checked that the reader may see them."""
    return await _made(tx, await reads.rows(tx, reads.COLUMNS_OF_A_ROW, job_ids), watch)


async def _rows(tx: Tx, who: Principal, wanted: reads.JobFilter, watch: Watch, count: int) -> list[JobRow]:
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    return await _made(
        tx, await reads.page(tx, reads.COLUMNS_OF_A_ROW, who.organization_id or "", seen, wanted, count), watch
    )


async def _searched(
    tx: Tx, who: Principal, typed: str, wanted: reads.JobFilter, watch: Watch, count: int
) -> list[JobRow]:
    """Return the jobs of the first modules whose path matches, or the job with this number."""
    seen, organization_id = await authorize.visible(tx, who, Verb.JOB_READ), who.organization_id or ""
    number = typed.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < MAX_NUMBER_DIGITS:
        try:
            found = [(await service.find(tx, who, number, Verb.JOB_READ)).id]
        except NotFound:
            found = []
    else:
        # Rows of jobs do not show the descriptions of modules, so a match in a description would look wrong.
        within = module_reads.ModuleScope(organization_id)
        modules = await module_reads.search(tx, seen, within, typed, "", MAX_SEARCHED_MODULES, only_paths=True)
        of_each = [msgspec.structs.replace(wanted, module_id=each) for each in modules]
        found = [job for each in of_each for job in await reads.ids(tx, organization_id, seen, each, count)]
    return await _made(tx, await reads.rows(tx, reads.COLUMNS_OF_A_ROW, sorted(found, reverse=True)[:count]), watch)


async def _made(tx: Tx, rows: list[Row], watch: Watch) -> list[JobRow]:
    found = await reasons.why_each(tx, [row_to(Job, row) for row in rows], watch)
    made = [row_to(JobRow, {**row, "created_by": row["started_by"]}) for row in rows]
    return [msgspec.structs.replace(row, reason=found.get(row.id)) for row in made]
