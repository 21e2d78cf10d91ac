"""Writes a point of the history every minute, and checks that the database still has the last one that this server wrote."""

import asyncio
import contextlib

from terracrew.errors import Superseded
from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store
from terracrew.server.history.points import KEPT_SECONDS, History
from terracrew.server.jobs.set_back import detection

CHECK_SECONDS = 5.0
POINT_SECONDS = 60.0
MAX_PRUNED = 1_000
LOST_OWN_WRITES = "this server has written something that the database does not have any more"


class HistoryLoop:
    def __init__(self, db: Database, history: History) -> None:
        self._db, self._history = db, history
        self._next_point_at = 0.0

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        with self._db.listen("history") as wakeups:
            while True:
                await self.step()
                end = clock() + CHECK_SECONDS
                while (left := end - clock()) > 0:
                    for _, point_id in await wakeups.get(timeout=left):
                        if point_id:
                            self._history.note_of_others(point_id)

    async def step(self) -> None:
        if await self._db.read(self._history.lacks_latest):
            lost_at = self._history.latest_at
            with contextlib.suppress(Superseded):  # another server holds it at this moment
                await self._db.write(lambda tx: detection.start(tx, LOST_OWN_WRITES, lost_at=lost_at))
            await self._db.write(self._history.add)
        clock = asyncio.get_running_loop().time
        if clock() >= self._next_point_at:
            self._next_point_at = clock() + POINT_SECONDS
            await self._db.write(self._add_point)
        await asyncio.to_thread(self._history.remember)

    async def _add_point(self, tx: Tx) -> None:
        await self._history.add(tx)
        await store.prune(tx, tx.now - KEPT_SECONDS, MAX_PRUNED)


async def at_start(db: Database, history: History, reason: str) -> None:
    """Hold the server for this reason, if there is one, or if the database lacks what an earlier process of this server has written."""
    remembered = [history.remembered()]

    async def work(tx: Tx) -> None:
        if reason:
            await detection.start(tx, reason)
        elif await store.newest_point_at(tx, tx.now + 1.0) is not None and (
            missing := await history.missing(tx, remembered)
        ):
            await detection.note_missing(tx, missing, "an earlier process of this server")
        await history.add(tx)

    await db.write(work)
    await asyncio.to_thread(history.remember)
