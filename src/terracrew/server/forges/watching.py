"""Watches the repositories that modules or discovery rules use: a new one begins to be watched, one that nothing uses is given up."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable

from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.forges import addresses, reads, repository_store, store
from terracrew.server.forges.model import ForgeConnection
from terracrew.server.forges.reads import UsedRepository

SWEEP_SECONDS = 600.0
PAUSE_SECONDS = 3.0
"""Many modules are often created one after the other: they are looked at together."""
log = get_logger("terracrew.forges")


class RepositoryWatch:
    """The loop of each server. Two servers that do it at once write the same."""

    def __init__(self, db: Database, others: Callable[[Tx], Awaitable[Iterable[UsedRepository]]]) -> None:
        """`others` reads what uses repositories besides modules."""
        self._db, self._others = db, others

    async def run(self) -> None:
        with self._db.listen("tree", "forges") as wakeups:
            while True:
                await self.step()
                await wakeups.get(timeout=SWEEP_SECONDS)
                await asyncio.sleep(PAUSE_SECONDS)

    async def step(self) -> None:
        """Compare the sources of all modules with the repositories that are watched, and write the differences."""
        wanted, unused = await self._db.read_in_background(self._differences)
        for connection_id, names in wanted.items():
            await self._db.write(lambda tx, of=connection_id, names=names: _watch(tx, of, names))
        if unused:
            await self._db.write(lambda tx: repository_store.give_up(tx, unused))

    async def _differences(self, tx: Tx) -> tuple[dict[str, list[str]], list[str]]:
        """Return the names of new repositories by their connections, and the ids of those that are no longer wanted."""
        connections = await store.everything(tx)
        if not connections:
            return {}, []
        by_organization: dict[str, list[ForgeConnection]] = defaultdict(list)
        for each in connections:
            by_organization[each.organization_id].append(each)
        wanted: dict[tuple[str, str], str] = {}
        used = [
            UsedRepository(each.organization_id, each.group, each.source.url) for each in await reads.source_modules(tx)
        ]
        for each in (*used, *await self._others(tx)):
            known = by_organization[each.organization_id]
            meant = addresses.connection_for(known, each.organization_id, each.group, each.url)
            if meant is not None:
                wanted.setdefault((meant[0].id, addresses.key(meant[1])), meant[1])
        watched = {(each.connection_id, each.name_key): each for each in await repository_store.watched(tx)}
        new: dict[str, list[str]] = defaultdict(list)
        for place, name in wanted.items():
            if place not in watched:
                new[place[0]].append(name)
        unused = [each.id for place, each in watched.items() if place not in wanted and not each.is_added]
        return new, unused


async def _watch(tx: Tx, connection_id: str, names: list[str]) -> None:
    if await store.find(tx, connection_id) is not None:  # it may have been deleted meanwhile
        await repository_store.watch(tx, connection_id, names, is_added=False)
        tx.wake("forges", connection_id)
