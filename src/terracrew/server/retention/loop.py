"""The loops of retention: one server of all does each of them, whichever holds the lease."""

import asyncio
from typing import TYPE_CHECKING

from terracrew import backoff
from terracrew.server.db import lease
from terracrew.server.retention import deletion, objects, orphans, passes, policy
from terracrew.server.retention.policy import Tally

if TYPE_CHECKING:
    from terracrew.server.context import Server

PASS_SECONDS = 3600.0
SWEEP_SECONDS = 24 * 3600.0
"""Between two sweeps for orphans, each of which lists the whole object store."""
_LEASE_SECONDS = 600.0
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
                await wakeups.get(backoff.jittered(DELETION_SECONDS))

    async def step(self) -> None:
        server = self._server
        if await lease.acquire(server.db, "deletions", server.id, DELETION_SECONDS):
            await deletion.remove_deleted(server.db)
            delay = server.settings.object_deletion_delay_hours * _HOUR_SECONDS
            await objects.delete_due(server.db, server.objects, delay)
            await asyncio.shield(lease.release(server.db, "deletions", server.id))


class Retention:
    """Removes what is older than the settings keep it, and sweeps orphans."""

    def __init__(self, server: "Server") -> None:
        self._server = server

    async def run(self) -> None:
        while True:
            await asyncio.sleep(backoff.jittered(PASS_SECONDS))
            await self.step()

    async def step(self) -> None:
        """Nothing where another server does it."""
        server = self._server
        if not await self._renew():
            return
        removed = await passes.remove_due(server.db, policy.of(server.settings), self._renew)
        await passes.record(server.db, "pass", server.id, removed)
        if await self._is_sweep_due() and await self._renew():
            await passes.record(server.db, "sweep", server.id, await self.sweep())

    async def sweep(self) -> dict[str, Tally]:
        server = self._server
        late_seconds = server.settings.late_delivery_days * policy.DAY_SECONDS
        return await orphans.sweep(server.db, server.objects, late_seconds)

    async def _is_sweep_due(self) -> bool:
        row = await self._server.db.read(
            lambda tx: tx.one(
                "SELECT name FROM retention_runs WHERE name = 'sweep' AND finished_at > :since",
                since=tx.now - SWEEP_SECONDS,
            )
        )
        return row is None

    async def _renew(self) -> bool:
        return await lease.acquire(self._server.db, "retention", self._server.id, _LEASE_SECONDS)
