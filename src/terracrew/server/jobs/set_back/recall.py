"""Records what an executor says of its own `begin`, before anything else is decided about its attempt."""

from terracrew.api.jobs import UNKNOWN_VERSION, Attempt, Job
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import decide, store
from terracrew.server.jobs.decide import Decision
from terracrew.server.state import service as states
from terracrew.server.state import store as state_store


async def recall(db: Database, ref: AttemptRef, *, has_begun: bool, is_proven: bool) -> None:
    """`is_proven`: it has shown the point of the history that it was told with its permission to apply."""

    async def work(tx: Tx) -> None:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        if found is None:
            return
        job, attempt = found
        version = await _version(tx, job, attempt)
        decision: Decision | None = decide.recall(
            job, attempt, store.moment(tx), has_begun=has_begun, is_proven=is_proven, state_version=version
        )
        if decision is not None:
            await store.move(tx, job, attempt, decision)

    await db.write(work)


async def _version(tx: Tx, job: Job, attempt: Attempt) -> int:
    """Return the version of the state that the attempt builds on. It is not known if another one was stored since its claim."""
    current = await states.current(tx, job.module_id)
    if current is not None and current.created_at > attempt.claimed_at:
        return UNKNOWN_VERSION
    return (await state_store.standing(tx, job.module_id)).version
