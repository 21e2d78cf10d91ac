"""The reaper finds attempts that have lost contact, and plans that nobody has decided about in time."""

import asyncio
from datetime import datetime, timedelta

from terracrew.errors import Unavailable
from terracrew.logging import get_logger
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import approvals, decide, service, store
from terracrew.server.jobs.attempts import contact
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.jobs.model import Attempt, Job

POLL_SECONDS = 1.0
log = get_logger("terracrew.reaper")


class Reaper:
    """Checks the attempts of all servers. The database has the last contact of each with any server, to a few seconds."""

    def __init__(self, db: Database, registry: Registry, lease: timedelta = decide.APPLY_LEASE) -> None:
        self._db = db
        self._registry = registry
        self._lease = lease
        self._failing: set[AttemptRef] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.step()

    async def step(self) -> None:
        unheard, now = await self._db.read(_unheard)
        self._registry.look()
        for attempt in unheard:
            heard = contact.last_contact(self._registry, attempt, now)
            if decide.is_silent(attempt, heard, now) or attempt.lost_at is not None:
                await self._try_to_look_at(attempt, heard)
        for job in await approvals.expire(self._db):
            log.info("a plan was not decided about in time", job=job.id)

    async def _try_to_look_at(self, attempt: Attempt, heard: decide.LastContact) -> None:
        """Look at one attempt. What is wrong with it is logged once, and does not keep the others from being found."""
        ref = AttemptRef(attempt.job_id, attempt.number)
        try:
            await self._look_at(attempt, heard)
        except Unavailable:
            raise  # the database is away, or has just gone: nobody can be looked at
        except Exception:
            if ref not in self._failing:
                self._failing.add(ref)
                log.exception("an attempt cannot be judged; the others are", job=ref.job_id, attempt=ref.attempt)
        else:
            self._failing.discard(ref)

    async def _look_at(self, attempt: Attempt, heard: decide.LastContact) -> None:
        def decision(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
            return decide.lost(job, attempt, heard, now, self._lease)

        ref = AttemptRef(attempt.job_id, attempt.number)
        if made := await service.settle(self._db, ref, decision):
            is_back = made.attempt.ended_at is None and made.attempt.lost_at is None
            what = "given up" if made.attempt.is_in_doubt else "heard again" if is_back else "lost"
            log.warning(f"attempt {what}", job=ref.job_id, attempt=ref.attempt)


async def _unheard(tx: Tx) -> tuple[list[Attempt], datetime]:
    """Read current attempts without recent contact, and those that count as lost."""
    rows = await attempt_reads.unheard(tx, tx.now - decide.CLOSED_FOR.total_seconds())
    return [row_to(Attempt, row) for row in rows], store.moment(tx)
