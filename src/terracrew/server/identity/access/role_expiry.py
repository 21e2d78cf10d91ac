"""Removes roles that have expired. An expired role allows nothing any more; this ends the streams that were opened with it."""

import asyncio

from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_reads, role_store
from terracrew.server.principals.model import SYSTEM

PERIOD_SECONDS = 30.0
MAX_PER_TRANSACTION = 200


class RoleExpiry:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def run(self) -> None:
        while True:
            while await self.step() == MAX_PER_TRANSACTION:
                pass
            await asyncio.sleep(PERIOD_SECONDS)

    async def step(self) -> int:
        """Remove expired roles, and return how many. Without any, it only reads."""
        if not await self._db.read(role_store.has_expired):
            return 0

        async def work(tx: Tx) -> int:
            gone = await role_store.delete_expired(tx, MAX_PER_TRANSACTION)
            changes: list[audit.Change] = []
            for binding in gone:
                name = await role_reads.principal_name(tx, binding.principal_id)
                details = {"principal": binding.principal_id, "name": name}
                details |= {"role": binding.role.value, "path": binding.path}
                changes.append(
                    audit.Change(SYSTEM, "role.expire", "role", binding.id, details, binding.organization_id)
                )
                tx.wake("roles", binding.principal_id)
            if changes:
                await audit.record_all(tx, changes)
            return len(gone)

        return await self._db.write(work)
