"""The reaper: finds attempts of which neither the runner nor the executor is heard any more."""

import asyncio
from datetime import timedelta

import structlog

from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.hub.registry import Registry
from terracrew.server.jobs import decide, service

EVERY = 1.0
log = structlog.get_logger("terracrew.reaper")


class Reaper:
    """Each server looks at every attempt: one that any of them hears is known to all, to a few seconds, by the database."""

    def __init__(self, db: Database, registry: Registry) -> None:
        self._db = db
        self._registry = registry

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self.step()

    async def step(self) -> None:
        rows = await self._db.read(_unheard)
        self._registry.look()
        for row in rows:
            ref = AttemptRef(row["id"], row["attempt"])
            silence, is_closed = self._registry.silence(ref, row["instance_id"], row["age"])
            if silence < decide.CLOSED_FOR.total_seconds():
                continue

            def decision(job: service.Job, attempt: service.Attempt, now: service.datetime) -> decide.Next | None:
                heard = decide.Heard(now - timedelta(seconds=silence), is_closed)  # noqa: B023 - called before the next turn
                return decide.lost(job, attempt, heard, now)

            if await service.settle(self._db, ref, decision):
                log.warning("attempt lost", job=ref.job_id, attempt=ref.attempt)


async def _unheard(tx: Tx) -> list[Row]:
    """Attempts that no server has noted as heard of late. What has begun is not among them: unknown is not dead."""
    return await tx.all(
        """SELECT jobs.id, jobs.attempt, jobs.instance_id,
            CAST(:now AS double precision) - coalesce(attempts.heard_at, attempts.claimed_at) AS age
        FROM jobs JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = jobs.attempt
        WHERE jobs.status IN ('CLAIMED', 'PROCESSING') AND attempts.begun_at IS NULL
            AND coalesce(attempts.heard_at, attempts.claimed_at) < :since""",
        now=tx.now, since=tx.now - decide.CLOSED_FOR.total_seconds(),
    )  # fmt: skip
