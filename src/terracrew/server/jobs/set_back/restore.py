"""Writes the rows of an attempt again that a database which was set back has lost, from the receipt of its claim,
and records what an executor says of its own `begin`."""

from msgspec.structs import replace

from terracrew.api.jobs import UNKNOWN_VERSION, Attempt, Job
from terracrew.errors import Conflict, Forbidden, NotFound, Unavailable
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import MUTATING, STEPS_OF
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store as history_store
from terracrew.server.jobs import attempt_store, reads, store
from terracrew.server.jobs.decision_types import Decision
from terracrew.server.jobs.set_back import decisions, detection
from terracrew.server.jobs.set_back.receipts import Claimed
from terracrew.server.state import locks
from terracrew.server.state import service as states
from terracrew.server.state import store as state_store
from terracrew.server.tree.groups import store as groups
from terracrew.server.tree.modules import reads as module_reads

MAX_TRIES = 3


async def restore(db: Database, claimed: Claimed) -> None:
    """Write the job and the attempt of a receipt, unless the database has the attempt, and hold the server.

    Jobs are deleted only with their module, so a database that has the module and lacks the attempt was set back.
    """

    async def work(tx: Tx) -> bool | None:
        wanted, attempt = claimed.as_job(), claimed.as_attempt()
        if await module_reads.path(tx, wanted.module_id, wanted.organization_id) is None:
            raise NotFound(f"the module of job {wanted.number} does not exist any more, or not in this database")
        known = await store.hold_job_if_known(tx, wanted.id)
        if await attempt_store.is_claimed_with(tx, wanted.id, attempt.number, claimed.hub_sha256):
            return True  # another connection of it was faster
        is_change = bool(MUTATING & set(STEPS_OF[wanted.type]))
        reason = f"attempt {attempt.number} of job {wanted.number} is not in the database"
        hold = await detection.start(tx, reason, lost_at=claimed.claimed_at)
        if is_change:
            text = f"attempt {attempt.number} of job {wanted.number} ({wanted.type}) was claimed after that"
            await history_store.note_evidence(tx, hold.id, wanted.module_id, text)
        if await attempt_store.get_attempt(tx, wanted.id, attempt.number) is not None:
            return None
        lock = await reads.lock_holder(tx, wanted.module_id)
        is_busy = lock is not None and lock["job_id"] != wanted.id
        if not is_busy:  # the claim proves that a person who held the lock before it has released it since
            is_busy = not await locks.remove_outdated(tx, wanted.module_id, wanted.organization_id, claimed.claimed_at)
        earlier = None if known is None else await _earlier(tx, known, attempt.number)
        # It counts as begun until its hello says otherwise, and as in contact from now on.
        now = tx.moment
        attempt = replace(attempt, may_have_begun=is_change, heard_at=now)
        decision = decisions.restore(known, wanted, attempt, now, earlier=earlier, is_module_busy=is_busy)
        if decision is None:
            return False
        if known is None:
            await store.insert_restored(tx, await _numbered(tx, decision.job))
        else:
            if earlier is not None:
                await attempt_store.save_attempt(tx, earlier, decisions.replaced(earlier, now))
            if decision.job != known:
                await store.save_transition(tx, known, replace(decision.job, number=known.number))
        await store.set_module_path(tx, wanted.id)
        secrets = (claimed.hub_sha256, claimed.api_sha256, claimed.state_key)
        await attempt_store.insert_restored(tx, decision.attempt, *secrets)
        return True

    for _ in range(MAX_TRIES):
        try:
            is_taken = await db.write(work)
        except Conflict:  # another job of the module was claimed at this moment, or the job itself
            continue
        if is_taken is None:
            raise Forbidden("another attempt of its job has got its number since the database was set back")
        if is_taken:
            return
        break
    raise Unavailable("the attempt cannot be taken again at this moment")


async def _earlier(tx: Tx, known: Job, number: int) -> Attempt | None:
    """Return the attempt that has the job, if its number is lower than this one."""
    if not known.is_active or known.attempt >= number:
        return None
    found = await attempt_store.get_attempt(tx, known.id, known.attempt)
    return found if found is not None and found.ended_at is None else None


async def _numbered(tx: Tx, job: Job) -> Job:
    """Return the job with its number, or with the next one if another job has got that number since."""
    if await reads.id_of_number(tx, job.organization_id, job.number) is not None:
        [number] = await groups.take_job_numbers(tx, job.organization_id, 1)
        return replace(job, number=number)
    await groups.skip_job_number(tx, job.organization_id, job.number)
    return job


async def recall(db: Database, ref: AttemptRef, *, has_begun: bool, is_proven: bool) -> None:
    """`is_proven`: it has shown the point of the history that it was told with its permission to apply."""

    async def work(tx: Tx) -> None:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        if found is None:
            return
        job, attempt = found
        version = await _version(tx, job, attempt)
        decision: Decision | None = decisions.recall(
            job, attempt, tx.moment, has_begun=has_begun, is_proven=is_proven, state_version=version
        )
        if decision is not None:
            await store.move(tx, job, attempt, decision)

    await db.write(work)


async def _version(tx: Tx, job: Job, attempt: Attempt) -> int:
    """Return the version of the state that the attempt builds on. It is not known if another one was stored since its claim."""
    current = await states.current(tx, job.module_id)
    if current is not None and current.created_at > attempt.claimed_at:
        return UNKNOWN_VERSION
    return (await state_store.version_facts(tx, job.module_id)).version
