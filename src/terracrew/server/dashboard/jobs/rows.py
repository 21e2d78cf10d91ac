"""Rows of lists of jobs, on the jobs page and on the pages of runners and modules."""

from datetime import datetime, timedelta

import msgspec

from terracrew.api.job_views import JobListed
from terracrew.api.jobs import Job, JobStatus, Outcome
from terracrew.errors import Invalid, NotFound
from terracrew.protocol.spec import JobType, Step
from terracrew.server.dashboard import badges, forms
from terracrew.server.dashboard.badges import Badge
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import reads, service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import lists, reasons
from terracrew.server.runs.reasons import Watch
from terracrew.server.tree.modules import reads as module_reads

PAGE_ROWS = 50
MAX_SEARCHED_MODULES = 20
"""How many matching modules are searched for jobs while a path is typed."""
MAX_NUMBER_DIGITS = 19


class JobRow(JobListed, frozen=True, kw_only=True):
    """A job in a list, with the name of who queued it. Of its plan, the resources are left out."""

    step: Step | None = None
    """The step that runs now."""
    earlier: Outcome | None = None
    """How the attempt before this one ended."""

    @property
    def badge(self) -> Badge:
        return badges.job_badge(self.status, self.step, is_canceling=self.cancel_mode is not None, reason=self.reason)


class JobFilters(msgspec.Struct, frozen=True):
    """The filters as they were typed; an empty one is not used."""

    status: str = ""
    """The status of a job, or `open`."""
    module: str = ""
    """A part of the path of a module, or the number of a job."""
    type: str = ""
    who: str = ""
    runner: str = ""
    since: str = ""
    until: str = ""
    """Days, as a browser sends them. Both belong to the jobs that are shown."""

    @property
    def more(self) -> dict[str, str]:
        """Return the filters that are used, apart from the status and the search, which are shown elsewhere."""
        given = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value and name not in ("status", "module")}

    @property
    def is_used(self) -> bool:
        return any(msgspec.structs.asdict(self).values())


class JobsPage(msgspec.Struct, frozen=True):
    rows: list[JobRow]
    filters: JobFilters
    before: str | None
    """The last job of this page, if older ones follow."""
    is_first: bool
    may_run: bool
    """Whether the reader may run some module."""


async def read_page(
    tx: Tx, who: Principal, filters: JobFilters, before: str | None, watch: Watch, count: int = PAGE_ROWS
) -> JobsPage:
    """Return the newest jobs that match and are older than `before`."""
    module_id = None
    if filters.module:
        try:
            module_id = await lists.visible_module(tx, who, filters.module)
        except Invalid:  # the text in the field is not a valid path
            module_id = None
    wanted = _wanted(filters, module_id, before)
    if filters.module and module_id is None:
        rows = await _searched(tx, who, filters.module, wanted, watch, count + 1)
    else:
        rows = await _rows(tx, who, wanted, watch, count + 1)
    made = rows[:count]
    may_run = not (await authorize.visible(tx, who, Verb.JOB_RUN)).is_nothing
    return JobsPage(made, filters, made[-1].id if len(rows) > count else None, before is None, may_run)


def _wanted(filters: JobFilters, module_id: str | None, before: str | None) -> reads.JobFilter:
    """Return the filters that were typed. A status, type or day that does not exist is no filter."""
    until = _day(filters.until)
    return reads.JobFilter(
        status=JobStatus(filters.status) if filters.status in JobStatus.__members__ else None,
        is_open=filters.status == "open",
        module_id=module_id,
        before=before or "",
        type=JobType(filters.type) if filters.type in JobType.__members__ else None,
        who=filters.who,
        runner=filters.runner,
        since=_day(filters.since),
        until=None if until is None else until + timedelta(days=1),
    )


def _day(typed: str) -> datetime | None:
    """Return the beginning of a day, in UTC; None if that is not a day, or one so late that it has none after it."""
    try:
        return forms.day(typed)
    except ValueError:
        return None


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
    made = [row_to(JobRow, {**row, "created_by": row["started_by"], "plan": reads.plan_counts(row)}) for row in rows]
    return [msgspec.structs.replace(row, reason=found.get(row.id)) for row in made]
