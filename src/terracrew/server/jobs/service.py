"""Finds, shows and cancels jobs for people, and saves decisions about attempts."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import msgspec

from terracrew import ids
from terracrew.api.jobs import Attempt, Job
from terracrew.api.locks import Lock
from terracrew.errors import Conflict, Forbidden, NotFound
from terracrew.protocol.messages import AttemptRef, CancelMode
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.jobs import attempt_store, decide, reads, store
from terracrew.server.jobs.decide import Decision
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import locks
from terracrew.server.tree.modules import reads as module_reads


class Owned(msgspec.Struct, frozen=True):
    """An attempt, its job, and the key of its states as it is stored."""

    job: Job
    attempt: Attempt
    sealed_key: bytes


async def owned(tx: Tx, ref: AttemptRef) -> Owned:
    """Return what belongs to an attempt's credential."""
    [found] = await owned_by_each(tx, [ref])
    if isinstance(found, Forbidden):
        raise found
    return found


async def owned_by_each(tx: Tx, refs: Sequence[AttemptRef]) -> list[Owned | Forbidden]:
    """Return what belongs to the credential of each attempt, or why it cannot be used."""
    found = await store.owned(tx, ((ref.job_id, ref.attempt) for ref in refs))
    refused = Forbidden("this credential is for another attempt")
    each = (found.get((ref.job_id, ref.attempt)) for ref in refs)
    return [refused if one is None else Owned(*one) for one in each]


async def place_of(tx: Tx, job: Job) -> authorize.Place:
    path = await module_reads.path(tx, job.module_id, job.organization_id)
    if path is None:  # the module was deleted, and its jobs are being removed
        raise NotFound(f"there is no job {job.id}")
    return authorize.module(job.organization_id, path, job.id, job.attempt)


async def find(tx: Tx, principal: Principal, name: str, verb: Verb) -> Job:
    """Return a job by its id or its number, if the principal may do this with it."""
    unseen: NotFound | None = None
    if name.isascii() and name.isdigit() and len(name) < 19:
        unseen = NotFound(f"there is no job number {name}")  # the error must not reveal that the job exists
        numbered = await reads.id_of_number(tx, principal.organization_id, int(name))
        if numbered is None:
            raise await _fleet_job_of(tx, principal, int(name)) or unseen
        name = numbered
    job_id = ids.parse("job", name)
    unseen = unseen or NotFound(f"there is no job {job_id}")
    found = await reads.with_module_path(tx, job_id)
    if found is None:
        raise unseen
    job, path = found
    place = authorize.module(job.organization_id, path, job.id, job.attempt)
    await authorize.require(tx, principal, verb, place, unseen)
    return job


async def _fleet_job_of(tx: Tx, principal: Principal, number: int) -> NotFound | None:
    """Return the error that says where to look, if the number is that of a fleet job that the principal may see."""
    found = await fleet_jobs.seen(tx, principal, number)
    if found is None:
        return None
    words = f"number {number} is the {found.type} of `{found.target_name}`, which is a job of the fleet"
    return NotFound(f"{words}: `terracrew fleet-job show {number}` shows it", fleet_job_id=found.id)


async def cancel(db: Database, principal: Principal, name: str, mode: CancelMode) -> Job:
    """End a job that is not running, or ask the attempt that runs it to stop."""

    async def work(tx: Tx) -> Job:
        job = await store.hold_job(tx, (await find(tx, principal, name, Verb.JOB_CANCEL)).id)
        if job.is_terminal:
            raise Conflict(f"job {job.number} has ended already: it is {job.status}", status=job.status)
        after = decide.cancel(job, mode, tx.moment, principal.name)
        await store.save_transition(tx, job, after)
        await audit.record(tx, principal, "job.cancel", "job", job.id, {"job": job.number, "mode": mode})
        return after

    return await db.write(work)


async def cancel_of_deleted_module(db: Database, job_id: str) -> None:
    """End a job that was queued at the moment in which its module was deleted."""

    async def work(tx: Tx) -> None:
        job = await store.hold_job(tx, job_id)
        if not job.is_terminal:
            after = decide.cancel(job, "interrupt", tx.moment, "the deletion of its module")
            await store.save_transition(tx, job, after)

    await db.write(work)


async def settle(
    db: Database, ref: AttemptRef, decision_of: Callable[[Job, Attempt, datetime], Decision | None]
) -> Decision | None:
    """Load an attempt and its job, decide, and save both if anything changes."""

    async def work(tx: Tx) -> Decision | None:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        decision = decision_of(*found, tx.moment) if found else None
        if found and decision is not None:
            await store.move(tx, *found, decision)
        return decision

    return await db.write(work)


async def note_starts(db: Database, instance_id: str, reasons: Mapping[AttemptRef, str]) -> None:
    """Record what the starts of an instance's attempts wait for, for the people who wait with them."""

    async def work(tx: Tx) -> None:
        for ref, reason in reasons.items():
            if await attempt_store.note_start(tx, ref.job_id, ref.attempt, instance_id, reason):
                tx.wake("jobs", ref.job_id)

    await db.write(work)


async def lock(tx: Tx, module_id: str) -> Lock | None:
    """Return who holds a module's lock: a job or a person."""
    row = await reads.module_lock(tx, module_id)
    if row is None:
        return None
    if row["since"] is not None:
        return row_to(Lock, row)
    person = await locks.holder(tx, module_id) if row["is_held_by_person"] else None
    return None if person is None else Lock("", 0, 0, person.created_at, person=person)
