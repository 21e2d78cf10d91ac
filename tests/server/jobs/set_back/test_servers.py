"""Several servers notice at the same moment that their database was set back."""

import asyncio

from terracrew.server.db.seam import Database, Tx
from terracrew.server.history import store
from terracrew.server.history.points import History
from terracrew.server.jobs.set_back.loop import HistoryLoop
from tests.builders.job_rows import KEYS


async def test_servers_that_notice_it_at_the_same_moment_hold_once_and_go_on(database: Database) -> None:
    """The ones that came second logged a traceback, and took up their work a little later."""
    histories = [History(KEYS) for _ in range(6)]
    for each in histories:
        await database.write(each.add)

    async def forget(tx: Tx) -> None:
        await tx.run("DELETE FROM history")

    await database.write(forget)
    await asyncio.gather(*(HistoryLoop(database, each).step() for each in histories))
    assert len(await database.read(store.holds)) == 1
    assert not any([await database.read(each.lacks_latest) for each in histories])
