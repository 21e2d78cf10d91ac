"""Jobs as rows of a list, and everything on the page of one."""

from collections.abc import Awaitable, Callable
from typing import LiteralString

import msgspec

from terracrew.protocol.events import Output
from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Row, Tx
from terracrew.server.hub.registry import Registry
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb, Visible
from terracrew.server.identity.keys import Keyring
from terracrew.server.identity.model import Principal
from terracrew.server.jobs import reasons, service
from terracrew.server.jobs.model import Job, JobStatus, Reason
from terracrew.server.web.views import JobPage, JobRow, JobsPage, OutputRow

PAGE = 50
OPEN: LiteralString = "jobs.status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')"
Why = Callable[[Tx, Job], Awaitable[Reason | None]]

_NAMES: LiteralString = """coalesce((SELECT name FROM users WHERE users.id = jobs.created_by),
    (SELECT name FROM service_accounts WHERE service_accounts.id = jobs.created_by), jobs.created_by) AS started_by"""
_ROW: LiteralString = (
    """SELECT jobs.id, jobs.organization_id, jobs.module_id, jobs.number, jobs.type, jobs.status, jobs.attempt,
    jobs.created_at, jobs.queued_at, jobs.started_at, jobs.finished_at, jobs.cancel_mode, jobs.message, jobs.priority,
    jobs.source, jobs.runner_id, jobs.instance_id, jobs.claimed_at, jobs.created_by, modules.path AS module_path,
    (SELECT path FROM runners WHERE runners.id = jobs.runner_id) AS runner_path,
    (SELECT name FROM instances WHERE instances.id = jobs.instance_id) AS instance_name,
    (SELECT min(name) FROM steps
        WHERE steps.job_id = jobs.id AND steps.attempt = jobs.attempt AND steps.status = 'RUNNING') AS step,
    (SELECT outcome FROM attempts
        WHERE attempts.job_id = jobs.id AND attempts.number = jobs.attempt - 1) AS earlier, """
    + _NAMES
    + " FROM jobs JOIN modules ON modules.id = jobs.module_id WHERE jobs.organization_id = :organization_id AND "
)
_LIST: LiteralString = (
    _ROW
    + """(CAST(:before AS text) IS NULL OR jobs.id < CAST(:before AS text))
    AND (CAST(:module AS text) IS NULL OR modules.path = CAST(:module AS text))
    AND (:kind = 'all' OR jobs.status = :kind OR (:kind = 'open' AND """
    + OPEN
    + ")) ORDER BY jobs.id DESC LIMIT :limit"
)
_OPEN: LiteralString = _ROW + OPEN + " ORDER BY jobs.id DESC LIMIT :limit"


def reasons_of(registry: Registry) -> Why:
    """Why a job waits, be it for a runner or for word of the one that has it."""

    async def why(tx: Tx, job: Job) -> Reason | None:
        return await reasons.why(tx, job) or await reasons.of_active(tx, registry, job)

    return why


async def listing(tx: Tx, who: Principal, status: str, module: str, before: str | None, why: Why) -> JobsPage:
    """The newest first; older ones behind `before`."""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    kept: list[Row] = []
    at = before
    while len(kept) <= PAGE:
        rows = await tx.all(
            _LIST,
            organization_id=who.organization_id,
            before=at,
            module=module or None,
            kind=status or "all",
            limit=PAGE + 1,
        )
        kept += [row for row in rows if _is_seen(seen, row)]
        if len(rows) <= PAGE:
            break
        at = rows[-1]["id"]
    made = [await _row(tx, row, why) for row in kept[:PAGE]]
    return JobsPage(made, status, module, made[-1].id if len(kept) > PAGE else None, before is None)


async def active(tx: Tx, who: Principal, why: Why, limit: int = 20) -> list[JobRow]:
    """Those that have not ended."""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    rows = await tx.all(_OPEN, organization_id=who.organization_id, limit=10 * limit)
    return [await _row(tx, row, why) for row in rows if _is_seen(seen, row)][:limit]


def _is_seen(seen: Visible, row: Row) -> bool:
    return seen.covers(authorize.module(row["organization_id"], row["module_path"]))


async def _row(tx: Tx, row: Row, why: Why) -> JobRow:
    made = row_to(JobRow, {**row, "created_by": row["started_by"]})
    if made.is_terminal:
        return made
    return msgspec.structs.replace(made, reason=await why(tx, row_to(Job, row)))


async def page(tx: Tx, who: Principal, name: str, attempt: int | None, keys: Keyring, why: Why) -> JobPage:
    job = await service.find(tx, who, name, Verb.JOB_READ)
    view = await service.view(tx, job)
    reason = view.reason or await why(tx, job)
    place = authorize.module(job.organization_id, view.module_path)
    row = await tx.one("SELECT " + _NAMES + " FROM jobs WHERE jobs.id = :id", id=job.id)
    runners = await tx.all(
        """SELECT attempts.number, runners.path, instances.name FROM attempts
        LEFT JOIN runners ON runners.id = attempts.runner_id LEFT JOIN instances ON instances.id = attempts.instance_id
        WHERE attempts.job_id = :id""",
        id=job.id,
    )
    return JobPage(
        view=msgspec.structs.replace(view, reason=reason),
        started_by="you" if job.created_by == who.id else row["started_by"] if row else job.created_by,
        runners={each["number"]: " · ".join(filter(None, (each["path"], each["name"]))) for each in runners},
        outputs=await _outputs(tx, who, place, job, keys),
        may_cancel=not job.is_terminal and await _may(tx, who, Verb.JOB_CANCEL, place),
        may_run=await _may(tx, who, Verb.JOB_RUN, place),
        shown=attempt if attempt in {each.number for each in view.attempts} else job.attempt,  # pyright: ignore[reportArgumentType]
    )


async def _outputs(tx: Tx, who: Principal, place: authorize.Place, job: Job, keys: Keyring) -> list[OutputRow] | None:
    """What the job put out, for those who may read the module's state."""
    if job.status is not JobStatus.SUCCEEDED or not await _may(tx, who, Verb.STATE_READ, place):
        return None
    row = await tx.one("SELECT content FROM outputs WHERE job_id = :id", id=job.id)
    if row is None:
        return None
    content = keys.decrypt(bytes(row["content"]), f"outputs:{job.id}")
    found = msgspec.json.decode(content, type=dict[str, Output])
    return [OutputRow(name, None if each.is_sensitive else _text(each.value)) for name, each in sorted(found.items())]


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


async def _may(tx: Tx, who: Principal, verb: Verb, place: authorize.Place) -> bool:
    return (await authorize.visible(tx, who, verb)).covers(place)
