"""The loops of retention. Only the server that holds the lease of a loop does its work."""

import asyncio

from terracrew import backoff
from terracrew.api.operations import Tally
from terracrew.server.db import lease
from terracrew.server.db.seam import Database
from terracrew.server.objects import Objects
from terracrew.server.retention import deletion, orphans, passes, policy, store
from terracrew.settings.server import ServerSettings

PASS_SECONDS = 3600.0
SWEEP_SECONDS = 24 * 3600.0
"""The time between two sweeps for orphans; each lists the whole object store."""
_LEASE_SECONDS = 600.0
DELETION_SECONDS = 600.0
"""The time between two checks for deleted modules without a wake-up, for example after a restart."""
_HOUR_SECONDS = 3600.0


class Deletions:
    """Removes what was kept for deleted modules, and objects that no row names any more."""

    def __init__(self, server_id: str, db: Database, objects: Objects, settings: ServerSettings) -> None:
        self._server_id, self._db, self._objects, self._settings = server_id, db, objects, settings

    async def run(self) -> None:
        with self._db.listen("deletions") as wakeups:
            while True:
                await self.step()
                await wakeups.get(backoff.jittered(DELETION_SECONDS))

    async def step(self) -> None:
        if await lease.acquire(self._db, "deletions", self._server_id, DELETION_SECONDS):
            await deletion.remove_deleted(self._db)
            delay = self._settings.object_deletion_delay_hours * _HOUR_SECONDS
            await deletion.delete_due(self._db, self._objects, delay)
            await asyncio.shield(lease.release(self._db, "deletions", self._server_id))


class Retention:
    """Removes what is older than the settings allow, and sweeps orphans."""

    def __init__(self, server_id: str, db: Database, objects: Objects, settings: ServerSettings) -> None:
        self._server_id, self._db, self._objects, self._settings = server_id, db, objects, settings

    async def run(self) -> None:
        while True:
            await asyncio.sleep(backoff.jittered(PASS_SECONDS))
            await self.step()

    async def step(self) -> None:
        """Make one pass, unless another server holds the lease."""
        if not await self._renew():
            return
        removed = await passes.remove_due(self._db, policy.of(self._settings), self._renew)
        await passes.record(self._db, "pass", self._server_id, removed)
        if await self._is_sweep_due() and await self._renew():
            await passes.record(self._db, "sweep", self._server_id, await self.sweep())

    async def sweep(self) -> dict[str, Tally]:
        late_seconds = self._settings.late_delivery_days * policy.DAY_SECONDS
        return await orphans.sweep(self._db, self._objects, late_seconds)

    async def _is_sweep_due(self) -> bool:
        return not await self._db.read(lambda tx: store.has_swept_since(tx, tx.now - SWEEP_SECONDS))

    async def _renew(self) -> bool:
        return await lease.acquire(self._db, "retention", self._server_id, _LEASE_SECONDS)
