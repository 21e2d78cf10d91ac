"""The reaper finds attempts that have lost contact, and plans that nobody has decided about in time."""

import asyncio
from datetime import datetime, timedelta

from terracrew.api.jobs import Attempt, Job
from terracrew.logging import get_logger
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements.mapping import readable_rows
from terracrew.server.jobs import approvals, decide, service
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.attempts import reads as attempt_reads
from terracrew.server.supervise import FailedRows

POLL_SECONDS = 1.0
log = get_logger("terracrew.reaper")


class Reaper:
    """Checks the attempts of all servers. The database has the last contact of each with any server, to a few seconds."""

    def __init__(self, db: Database, registry: Registry, lease: timedelta = decide.APPLY_LEASE) -> None:
        self._db = db
        self._registry = registry
        self._lease = lease
        self._failed, self._failed_plans = FailedRows("reaper"), FailedRows("reaper")

    async def run(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            await self.step()

    async def step(self) -> None:
        silent_or_lost, now = await self._db.read(_silent_or_lost)
        self._registry.note_check()
        attempts = {f"{each.job_id}.{each.number}": each for each in silent_or_lost}
        due = self._failed.due(attempts)
        for key, attempt in attempts.items():
            last_contact = lost_attempts.last_contact(self._registry, attempt, now)
            is_lost = decide.is_silent(attempt, last_contact, now) or attempt.lost_at is not None
            if is_lost and key in due:
                with self._failed.handling(key):
                    await self._check(attempt, last_contact)
        for job in await approvals.expire(self._db, self._failed_plans):
            log.info("a plan was not decided about in time", job=job.id)

    async def _check(self, attempt: Attempt, last_contact: decide.LastContact) -> None:
        def decision(job: Job, attempt: Attempt, now: datetime) -> decide.Decision | None:
            return decide.lost(job, attempt, last_contact, now, self._lease)

        ref = AttemptRef(attempt.job_id, attempt.number)
        if made := await service.settle(self._db, ref, decision):
            is_back = made.attempt.ended_at is None and made.attempt.lost_at is None
            what = "given up" if made.attempt.is_in_doubt else "in contact again" if is_back else "lost"
            log.warning(f"attempt {what}", job=ref.job_id, attempt=ref.attempt)


async def _silent_or_lost(tx: Tx) -> tuple[list[Attempt], datetime]:
    """Read current attempts without recent contact, and those that count as lost."""
    rows = await attempt_reads.silent_or_lost(tx, tx.now - decide.CLOSED_FOR.total_seconds())
    return readable_rows(Attempt, rows), tx.moment
