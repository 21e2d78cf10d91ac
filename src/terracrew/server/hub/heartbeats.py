"""Heartbeats: noted in memory, written in one batch every few seconds."""

import asyncio

from terracrew.server.db.seam import Database, Tx

EVERY = 5.0


class Heartbeats:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._noted: dict[str, int] = {}

    def note(self, instance_id: str, epoch: int) -> None:
        self._noted[instance_id] = epoch

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY)
            await self.step()

    async def step(self) -> None:
        noted, self._noted = self._noted, {}
        if not noted:
            return

        async def work(tx: Tx) -> None:
            await tx.each(
                """UPDATE instances SET heard_at = batch.now FROM batch
                WHERE instances.id = batch.id AND instances.epoch = batch.epoch""",
                {"id": "text", "epoch": "bigint", "now": "double precision"},
                [(instance_id, epoch, tx.now) for instance_id, epoch in sorted(noted.items())],
            )

        await self._db.write(work)
