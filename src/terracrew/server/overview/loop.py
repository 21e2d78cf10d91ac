"""Keeps the figures up to date: folds entries into sums, adds the capacity of the runners, and deletes what is too old."""

import asyncio

from terracrew import backoff
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.figures import model
from terracrew.server.figures import reads as figure_reads
from terracrew.server.figures import store as figures
from terracrew.server.figures.model import Key
from terracrew.server.overview import reads

FOLD_SECONDS = 5.0
"""How often entries are folded. Readers add those that wait, so this bounds only how many they read."""
SAMPLE_SECONDS = 60.0
"""How often the capacity of the runners is looked at: runners that come and go in between are not seen."""
PRUNE_SECONDS = 3600.0
MAX_SAMPLE_SECONDS = 3 * SAMPLE_SECONDS
"""The longest time that one look counts for. While no server was running, runners had no capacity that anybody could use."""
_LEASE_SECONDS = 30.0


class FigureFolding:
    """Several servers may run it on one database: the lease only saves work, and each entry is folded once without it."""

    def __init__(self, server_id: str, db: Database) -> None:
        self._server_id, self._db = server_id, db
        self._pruned_at: float | None = None

    async def run(self) -> None:
        while True:
            await self.step()
            await asyncio.sleep(backoff.jittered(FOLD_SECONDS))

    async def step(self) -> None:
        if not await lease.acquire(self._db, "figures", self._server_id, _LEASE_SECONDS):
            return
        while await self._db.write(figures.fold):
            pass
        if await self._db.read(_is_sample_due):
            await self._db.write(sample)
        now = await self._db.read(_now)
        if self._pruned_at is None or now - self._pruned_at >= PRUNE_SECONDS:
            self._pruned_at = now
            while await self._db.write(figures.prune):
                pass


async def sample(tx: Tx) -> None:
    """Add the slots that are there now, for the time since this was last done.

    Two servers that do it at once add it once: the second one waits for the row of the first, and finds that no time has passed.
    """
    before = await figures.take_sample_time(tx)
    if before is None or tx.now <= before:
        return
    since = max(before, tx.now - MAX_SAMPLE_SECONDS)
    slots = await reads.slots_by_group(tx)
    ancestors = await figure_reads.ancestors(tx, [each for each in slots if each != model.SHARED])
    sums: dict[Key, float] = {}
    for group_id, count in slots.items():
        for period in model.PERIODS_SECONDS:
            for start, seconds in model.pieces(since, tx.now, period):
                for each in [model.SHARED] if group_id == model.SHARED else ancestors.get(group_id, []):
                    key = each, period, start, model.CAPACITY
                    sums[key] = sums.get(key, 0.0) + seconds * count
    await figures.add(tx, sums)


async def _is_sample_due(tx: Tx) -> bool:
    at = await figure_reads.sampled_at(tx)
    return at is None or tx.now - at >= SAMPLE_SECONDS


async def _now(tx: Tx) -> float:
    return tx.now
