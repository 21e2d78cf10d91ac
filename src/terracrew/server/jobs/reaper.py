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
    def __init__(self, db: Database, registry: Registry, server_id: str) -> None:
        self._db = db
        self._registry = registry
        self._server_id = server_id

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self.step()

    async def step(self) -> None:
        for row in await self._db.read(self._active):
            ref = AttemptRef(row["id"], row["attempt"])
            silence, is_connected = self._registry.silence(ref, row["instance_id"], row["age"])
            if silence < decide.CLOSED_FOR.total_seconds():
                continue

            def decision(job: service.Job, attempt: service.Attempt, now: service.datetime) -> decide.Next | None:
                heard = decide.Heard(now - timedelta(seconds=silence), is_connected)  # noqa: B023 - called before the next turn
                return decide.lost(job, attempt, heard, now)

            if await service.settle(self._db, ref, decision):
                log.warning("attempt lost", job=ref.job_id, attempt=ref.attempt)
                self._registry.forget(ref)

    async def _active(self, tx: Tx) -> list[Row]:
        """Attempts that are this server's to watch: those of instances that no other server is serving."""
        return await tx.all(
            """SELECT jobs.id, jobs.attempt, jobs.instance_id, CAST(:now AS double precision) - jobs.claimed_at AS age
            FROM jobs JOIN instances ON instances.id = jobs.instance_id
            WHERE jobs.status IN ('CLAIMED', 'PROCESSING') AND (
                instances.server_id = :server_id OR NOT instances.is_connected
                OR instances.heard_at < CAST(:now AS double precision) - 60)""",
            now=tx.now, server_id=self._server_id,
        )  # fmt: skip
