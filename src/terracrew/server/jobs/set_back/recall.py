"""Records what an executor says of its own `begin`, before anything else is decided about its attempt."""

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import decide, store
from terracrew.server.jobs.decide import Decision
from terracrew.server.state import store as state_store


async def recall(db: Database, ref: AttemptRef, *, has_begun: bool) -> None:
    async def work(tx: Tx) -> None:
        found = await store.hold(tx, ref.job_id, ref.attempt)
        if found is None:
            return
        job, attempt = found
        version, _ = await state_store.version(tx, job.module_id)
        decision: Decision | None = decide.recall(
            job, attempt, store.moment(tx), has_begun=has_begun, state_version=version
        )
        if decision is not None:
            await store.move(tx, job, attempt, decision)

    await db.write(work)
