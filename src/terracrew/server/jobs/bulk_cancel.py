"""Cancel many jobs with one request: those of a module, of a group, with a status, or all that the caller may cancel.

The jobs are canceled in the order of their ids, a bounded number in each transaction, so that other writes do not wait long.
"""

from typing import Annotated, Literal, LiteralString

import msgspec

from terracrew.errors import Forbidden
from terracrew.protocol.messages import CancelMode
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Param, Tx
from terracrew.server.db.statements.fragments import ENDED_STATUSES
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.groups import service as groups
from terracrew.server.jobs import decide, store
from terracrew.server.jobs.model import JobListed, JobStatus
from terracrew.server.modules import service as modules
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

MAX_PER_REQUEST = 500
MAX_PER_TRANSACTION = 100
MAX_COUNTED = 100_000
_Id = Annotated[str, msgspec.Meta(max_length=64)]
_MATCHING: LiteralString = f""" FROM jobs JOIN modules ON modules.id = jobs.module_id
WHERE jobs.organization_id = :organization_id AND jobs.id > :after
  AND jobs.status NOT IN {ENDED_STATUSES}
  AND (CAST(:up_to AS text) IS NULL OR jobs.id <= :up_to)
  AND (CAST(:status AS text) IS NULL OR jobs.status = :status)
  AND (CAST(:module_id AS text) IS NULL OR jobs.module_id = :module_id)
  AND substr(modules.path, 1, length(CAST(:below AS text))) = CAST(:below AS text)"""
"""The jobs of a `_Selection` after a given one that have not ended."""
_IN_ORDER: LiteralString = " ORDER BY jobs.id LIMIT :count"
_SEEN: LiteralString = " AND jobs.module_id IN (SELECT id FROM seen_modules)"


class CancelMany(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    mode: CancelMode = "interrupt"
    module: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    """Path or id of a module: only its jobs."""
    group: Annotated[str, msgspec.Meta(max_length=1000)] | None = None
    """Path or id of a group: only jobs of modules below it."""
    status: Literal["QUEUED", "CLAIMED", "PROCESSING", "AWAITING_APPROVAL"] | None = None
    after: _Id = ""
    """Go on after this job: the `next` of the answer before."""
    up_to: _Id | None = None
    """The newest job to cancel. What is queued after it has been counted is left alone."""
    count_only: bool = False
    """Tell how many jobs this would cancel, and cancel none."""


class CanceledMany(msgspec.Struct, frozen=True, kw_only=True):
    matching: int = 0
    """Jobs that this request would cancel, or has looked at."""
    ended: int = 0
    """Jobs that nobody ran: they are CANCELED."""
    asked: int = 0
    """Jobs that a runner has: they are asked to end."""
    up_to: str | None = None
    """The newest job among them."""
    next: str | None = None
    """Send it as `after` to continue; null when nothing is left."""


class _Selection(msgspec.Struct, frozen=True):
    organization_id: str
    module_id: str | None
    below: str
    status: str | None
    up_to: str | None


async def cancel_many(db: Database, who: Principal, wanted: CancelMany) -> CanceledMany:
    selection, seen = await db.read(lambda tx: _select(tx, who, wanted))
    if wanted.count_only:
        return await db.read_in_background(lambda tx: _count(tx, selection, seen, wanted.after))
    total = CanceledMany(next=wanted.after)
    for _ in range(MAX_PER_REQUEST // MAX_PER_TRANSACTION):
        after = total.next or ""
        done = await db.write(lambda tx, after=after: _cancel_some(tx, who, selection, seen, after, wanted.mode))
        total = CanceledMany(
            matching=total.matching + done.matching,
            ended=total.ended + done.ended,
            asked=total.asked + done.asked,
            up_to=done.up_to or total.up_to,
            next=done.next,
        )
        if done.next is None:
            break
    return total


async def _select(tx: Tx, who: Principal, wanted: CancelMany) -> tuple[_Selection, authorize.Visible]:
    authorize.require_reader(who)
    seen = await authorize.visible(tx, who, Verb.JOB_CANCEL)
    module_id, below = None, ""
    if wanted.module is not None:
        module_id = (await modules.find(tx, who, wanted.module, Verb.JOB_CANCEL)).id
    if wanted.group is not None:
        found = await groups.show(tx, who, wanted.group)
        below = f"{found.path}/" if found.path else ""
    if seen.organization_id is not None and not seen.bindings:
        raise Forbidden("you may not cancel any job: ask an owner for a role", verb=Verb.JOB_CANCEL.value)
    return _Selection(who.organization_id or "", module_id, below, wanted.status, wanted.up_to), seen


def _statement(
    seen: authorize.Visible, selection: _Selection, columns: LiteralString
) -> tuple[LiteralString, dict[str, Param]]:
    """Return the oldest jobs of the selection that the principal may cancel, and what the statement takes."""
    given: dict[str, Param] = msgspec.structs.asdict(selection)
    matching: LiteralString = " SELECT " + columns + _MATCHING
    if seen.is_everything(selection.organization_id):
        return matching + _IN_ORDER, given
    return visibility.SEEN_MODULES + matching + _SEEN + _IN_ORDER, given | visibility.params(seen)


async def _count(tx: Tx, selection: _Selection, seen: authorize.Visible, after: str) -> CanceledMany:
    """Count the jobs that this principal may cancel, and name the newest of them."""
    statement, given = _statement(seen, selection, "jobs.id")
    rows = await tx.all(statement, after=after, count=MAX_COUNTED, **given)
    return CanceledMany(matching=len(rows), up_to=rows[-1]["id"] if rows else None)


async def _cancel_some(
    tx: Tx, who: Principal, selection: _Selection, seen: authorize.Visible, after: str, mode: CancelMode
) -> CanceledMany:
    statement, given = _statement(seen, selection, store.JOBS.columns + ", modules.path AS module_path")
    statement += " FOR NO KEY UPDATE OF jobs"
    own = rows_to(JobListed, await tx.all(statement, after=after, count=MAX_PER_TRANSACTION, **given))
    now = store.moment(tx)
    ended = asked = 0
    changes: list[audit.Change] = []
    for job in own:
        later = decide.cancel(job, mode, now, who.name)
        if later == job:
            continue  # it has been asked to end in this way, or in a more forceful one, already
        await store.save_transition(tx, job, later)
        changes.append(
            audit.Change(who, "job.cancel", "job", job.id, {"mode": mode, "many": True}, job.organization_id)
        )
        if later.status is JobStatus.CANCELED:
            ended += 1
        else:
            asked += 1
    if changes:
        await audit.record_all(tx, changes)
    return CanceledMany(
        matching=len(own),
        ended=ended,
        asked=asked,
        up_to=own[-1].id if own else None,
        next=own[-1].id if len(own) == MAX_PER_TRANSACTION else None,
    )
