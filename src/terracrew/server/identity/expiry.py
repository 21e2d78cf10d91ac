"""Forgets sessions and links that have expired: once an hour, by one server of all, whichever holds the lease."""

import asyncio
import random

from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx

EVERY = 3600.0
LEASE = "expiry"


class Expiry:
    def __init__(self, db: Database, server_id: str) -> None:
        self._db = db
        self._server_id = server_id

    async def run(self) -> None:
        while True:
            await asyncio.sleep(EVERY * random.uniform(0.8, 1.2))  # noqa: S311 - spreads work, guards nothing
            await self.step()

    async def step(self) -> int:
        """How many rows went; none where another server does it."""
        if not await lease.acquire(self._db, LEASE, self._server_id, EVERY):
            return 0
        return await self._db.write(_forget)


async def _forget(tx: Tx) -> int:
    sessions = await tx.run("DELETE FROM sessions WHERE expires_at < :now", now=tx.now)
    return sessions + await tx.run("DELETE FROM one_time_links WHERE expires_at < :now", now=tx.now)
