"""Cancel many jobs with one request: those of a module, of a group, with a status, or all that the caller may cancel.

The jobs are canceled in the order of their ids, a bounded number in each transaction, so that other writes do not wait long.
"""

from terracrew.api.jobs import CanceledMany, CancelMany, Job, JobStatus
from terracrew.errors import Forbidden
from terracrew.protocol.messages import CancelMode
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.jobs import decide, queue_reads, store
from terracrew.server.jobs.queue_reads import CancelSelection
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.modules import service as modules

MAX_PER_REQUEST = 500
MAX_PER_TRANSACTION = 100
MAX_COUNTED = 100_000


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


async def _select(tx: Tx, who: Principal, wanted: CancelMany) -> tuple[CancelSelection, authorize.Visible]:
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
    return CancelSelection(who.organization_id or "", module_id, below, wanted.status, wanted.up_to), seen


async def _count(tx: Tx, selection: CancelSelection, seen: authorize.Visible, after: str) -> CanceledMany:
    """Count the jobs that this principal may cancel, and name the newest of them."""
    ids = await queue_reads.cancelable_ids(tx, selection, seen, after, MAX_COUNTED)
    return CanceledMany(matching=len(ids), up_to=ids[-1] if ids else None)


async def _cancel_some(
    tx: Tx, who: Principal, selection: CancelSelection, seen: authorize.Visible, after: str, mode: CancelMode
) -> CanceledMany:
    own = rows_to(Job, await queue_reads.hold_cancelable(tx, selection, seen, after, MAX_PER_TRANSACTION))
    now = tx.moment
    ended = asked = 0
    changes: list[audit.Change] = []
    for job in own:
        later = decide.cancel(job, mode, now, who.name)
        if later == job:
            continue  # it has been asked to end in this way, or in a more forceful one, already
        await store.save_transition(tx, job, later)
        changes.append(
            audit.Change(
                who, "job.cancel", "job", job.id, {"job": job.number, "mode": mode, "many": True}, job.organization_id
            )
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
