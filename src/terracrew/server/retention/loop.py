"""The loops of retention: one server of all does each of them, whichever holds the lease."""

import asyncio
import random
from typing import TYPE_CHECKING

from terracrew.server.db import lease
from terracrew.server.retention import deletion, objects

if TYPE_CHECKING:
    from terracrew.server.context import Server

DELETION_SECONDS = 600.0
"""Between two looks for deleted modules that nobody was woken for, after a restart say."""
_HOUR_SECONDS = 3600.0


class Deletions:
    """Removes what was kept for deleted modules, and objects that no row names any more."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    async def run(self) -> None:
        with self._server.db.listen("deletions") as wakeups:
            while True:
                await self.step()
                await wakeups.get(DELETION_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - spreads work, guards nothing

    async def step(self) -> None:
        server = self._server
        if await lease.acquire(server.db, "deletions", server.id, DELETION_SECONDS):
            await deletion.remove_deleted(server.db)
            delay = server.settings.object_deletion_delay_hours * _HOUR_SECONDS
            await objects.delete_due(server.db, server.objects, delay)
            await asyncio.shield(lease.release(server.db, "deletions", server.id))
