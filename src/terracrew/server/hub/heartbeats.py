"""Heartbeats: noted in memory, written in one batch every few seconds, so that every server knows who is heard on any."""

import asyncio
from typing import LiteralString

from terracrew.server.db.seam import Columns, Database, Tx
from terracrew.server.hub.registry import Registry

EVERY = 5.0
HEARD: LiteralString = """
UPDATE attempts SET heard_at = batch.now FROM batch
WHERE attempts.job_id = batch.job_id AND attempts.number = batch.attempt AND attempts.ended_at IS NULL
    AND coalesce(batch.instance_id, attempts.instance_id) = attempts.instance_id"""
HEARD_COLUMNS: Columns = {"job_id": "text", "attempt": "bigint", "instance_id": "text", "now": "double precision"}


class Heartbeats:
    def __init__(self, db: Database, registry: Registry) -> None:
        self._db = db
        self._registry = registry
        self._noted: dict[str, int] = {}

    def note(self, instance_id: str, epoch: int) -> None:
        self._noted[instance_id] = epoch

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self.step()

    async def step(self) -> None:
        noted, self._noted = self._noted, {}
        heard = sorted(dict(self._registry.heard(noted)).items())

        async def work(tx: Tx) -> None:
            await tx.each(
                """UPDATE instances SET heard_at = batch.now FROM batch
                WHERE instances.id = batch.id AND instances.epoch = batch.epoch""",
                {"id": "text", "epoch": "bigint", "now": "double precision"},
                [(instance_id, epoch, tx.now) for instance_id, epoch in sorted(noted.items())],
            )
            rows = [(ref.job_id, ref.attempt, instance, tx.now) for ref, instance in heard]
            await tx.each(HEARD, HEARD_COLUMNS, rows)

        if noted or heard:
            await self._db.write(work)
