"""Jobs as rows of a list, and everything on the page of one."""

import msgspec

from terracrew.errors import Invalid, NotFound
from terracrew.protocol.events import Output
from terracrew.server.dashboard.queries import states
from terracrew.server.dashboard.views import JobPage, JobRow, JobsPage, OutputRow
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import reads, service
from terracrew.server.jobs.model import Job, JobStatus
from terracrew.server.jobs.plans import approver_rules
from terracrew.server.modules import policy
from terracrew.server.modules import reads as module_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import attempt_report, lists, reasons
from terracrew.server.runs.reasons import Watch
from terracrew.server.runs.view import read as read_view
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import reads as state_reads
from terracrew.server.state.service import outputs_context

PAGE_ROWS = 50
MAX_SEARCHED_MODULES = 20
"""While a path is being typed, the jobs of so many matching modules are shown."""
MAX_NUMBER_DIGITS = 19


async def listing(
    tx: Tx, who: Principal, status: str, module: str, before: str | None, watch: Watch, count: int = PAGE_ROWS
) -> JobsPage:
    """Return the newest first; older ones behind `before`. `status` is one of a job, `open`, or empty for all."""
    module_id = None
    if module:
        try:
            module_id = await lists.visible_module(tx, who, module)
        except Invalid:  # whatever was typed into the field, it is the path of no module
            module_id = None
    chosen = JobStatus(status) if status and status != "open" else None
    wanted = reads.JobFilter(chosen, status == "open", module_id, before or "")
    if module and module_id is None:
        rows = await _searched(tx, who, module, wanted, watch, count + 1)
    else:
        rows = await _rows(tx, who, wanted, watch, count + 1)
    made = rows[:count]
    return JobsPage(made, status, module, made[-1].id if len(rows) > count else None, before is None)


async def active(tx: Tx, who: Principal, watch: Watch, limit: int = 20) -> list[JobRow]:
    """Return those that have not ended."""
    return await _rows(tx, who, reads.JobFilter(is_open=True), watch, limit)


async def _rows(tx: Tx, who: Principal, wanted: reads.JobFilter, watch: Watch, count: int) -> list[JobRow]:
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    return await _made(
        tx, await reads.page(tx, reads.COLUMNS_OF_A_ROW, who.organization_id or "", seen, wanted, count), watch
    )


async def _searched(
    tx: Tx, who: Principal, typed: str, wanted: reads.JobFilter, watch: Watch, count: int
) -> list[JobRow]:
    """Return the jobs of the first modules that match what is being typed, or the one job whose number it is."""
    seen, organization_id = await authorize.visible(tx, who, Verb.JOB_READ), who.organization_id or ""
    number = typed.removeprefix("#")
    if number.isascii() and number.isdigit() and len(number) < MAX_NUMBER_DIGITS:
        try:
            found = [(await service.find(tx, who, number, Verb.JOB_READ)).id]
        except NotFound:
            found = []
    else:
        # A row of a job does not show the module's description: a match in it would look like a mistake.
        modules = await module_reads.search(tx, organization_id, seen, typed, "", MAX_SEARCHED_MODULES, only_paths=True)
        of_each = [msgspec.structs.replace(wanted, module_id=each) for each in modules]
        found = [job for each in of_each for job in await reads.ids(tx, organization_id, seen, each, count)]
    return await _made(tx, await reads.rows(tx, reads.COLUMNS_OF_A_ROW, sorted(found, reverse=True)[:count]), watch)


async def _made(tx: Tx, rows: list[Row], watch: Watch) -> list[JobRow]:
    found = await reasons.why_each(tx, [row_to(Job, row) for row in rows], watch)
    made = [row_to(JobRow, {**row, "created_by": row["started_by"]}) for row in rows]
    return [msgspec.structs.replace(row, reason=found.get(row.id)) for row in made]


async def page(tx: Tx, who: Principal, name: str, attempt: int | None, keys: Keyring, watch: Watch) -> JobPage:
    job = await service.find(tx, who, name, Verb.JOB_READ)
    view = await read_view(tx, job, watch)
    place = authorize.module(job.organization_id, view.module_path)
    started_by = await reads.started_by(tx, job.id)
    may_approve = await _may(tx, who, Verb.JOB_APPROVE, place)
    is_asked = may_approve and job.status is JobStatus.AWAITING_APPROVAL
    refusal = approver_rules.refusal(job, who, await policy.of_module(tx, job.module_id)) if is_asked else None
    is_lost = any(each.number == job.attempt and each.ended_at is None and each.lost_at for each in view.attempts)
    return JobPage(
        view=view,
        started_by="you" if job.created_by == who.id else started_by,
        runners=await _runners(tx, job.id),
        outputs=await _outputs(tx, who, place, job, keys),
        may_cancel=not job.is_terminal and await _may(tx, who, Verb.JOB_CANCEL, place),
        may_run=await _may(tx, who, Verb.JOB_RUN, place),
        may_approve=may_approve,
        approval_refusal=refusal,
        shown=attempt if attempt in {each.number for each in view.attempts} else None,
        lost=await attempt_report.report(tx, job.id, job.attempt) if is_lost else None,
        doubts=view.doubts,
        quarantine=await states.quarantine(tx, who, job.module_id, place),
    )


async def _runners(tx: Tx, job_id: str) -> dict[int, str]:
    rows = await reads.runners_of_attempts(tx, job_id)
    return {each["number"]: " · ".join(filter(None, (each["runner_path"], each["instance_name"]))) for each in rows}


async def _outputs(tx: Tx, who: Principal, place: authorize.Place, job: Job, keys: Keyring) -> list[OutputRow] | None:
    """Return what the job put out, for those who may read the module's state."""
    if job.status is not JobStatus.SUCCEEDED or not await _may(tx, who, Verb.STATE_READ, place):
        return None
    row = await state_reads.outputs_of_job(tx, job.id)
    if row is None:
        return None
    if row["object"] is not None:
        return [OutputRow("all outputs", "too large to be shown here: `terracrew module outputs` prints them")]
    content = keys.decrypt(bytes(row["content"]), outputs_context(job.id))
    found = msgspec.json.decode(content, type=dict[str, Output])
    return [OutputRow(name, None if each.is_sensitive else _text(each.value)) for name, each in sorted(found.items())]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


async def _may(tx: Tx, who: Principal, verb: Verb, place: authorize.Place) -> bool:
    return (await authorize.visible(tx, who, verb)).covers(place)
