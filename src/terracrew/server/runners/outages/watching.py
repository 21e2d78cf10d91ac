"""Looks for runners that stay away, and notifies people once of each outage, and once of its end."""

import asyncio
from collections.abc import Sequence

from terracrew.logging import get_logger
from terracrew.server.announcements import service as announcements
from terracrew.server.db.seam import Database, Tx
from terracrew.server.runners.outages import model, reads, store
from terracrew.server.runners.outages.model import AbsentRunner

SWEEP_SECONDS = 30.0
BACK_SECONDS = 60.0
"""How long a runner has to stay connected to be back. One that connects and fails again and again is one outage."""
MAX_AGE_SECONDS = 24 * 3600.0
"""Nobody is notified of a runner that has been away for longer when a server notices it."""
MAX_RUNNERS_PER_STEP = 1_000
log = get_logger("terracrew.runners")


class Outages:
    """Several servers may run it on one database: a row of each outage ensures that one of them announces it."""

    def __init__(self, db: Database, offline_seconds: float) -> None:
        self._db, self._offline_seconds = db, offline_seconds
        self._watching_since: float | None = None

    async def run(self) -> None:
        self._watching_since = None  # while the database was away, runners could not connect
        while True:
            await self.step()
            await asyncio.sleep(SWEEP_SECONDS)

    async def step(self) -> None:
        """Write which outages have begun and ended. None begins before this server could have noticed that the runner is back."""
        offline = await self._db.read(self._absent)
        if offline:
            await self._db.write(lambda tx: _begin(tx, offline))
        back = await self._db.read(lambda tx: reads.ended(tx, tx.now - BACK_SECONDS, MAX_RUNNERS_PER_STEP))
        if back:
            await self._db.write(lambda tx: _end(tx, back))

    async def _absent(self, tx: Tx) -> Sequence[AbsentRunner]:
        if self._watching_since is None:
            self._watching_since = tx.now
        if tx.now - self._watching_since < self._offline_seconds:
            return ()
        return await reads.absent(tx, tx.now - MAX_AGE_SECONDS, tx.now - self._offline_seconds, MAX_RUNNERS_PER_STEP)


async def _begin(tx: Tx, runners: Sequence[AbsentRunner]) -> None:
    new = await store.begin(tx, runners)
    for each in runners:
        if each.id in new:
            log.warning("runner offline", runner=each.name, runner_id=each.id)
    await announcements.announce(tx, *model.began(each for each in runners if each.id in new))


async def _end(tx: Tx, runners: Sequence[AbsentRunner]) -> None:
    gone = await store.end(tx, runners)
    await announcements.announce(tx, *model.ended(each for each in runners if each.id in gone))
