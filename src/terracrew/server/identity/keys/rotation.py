"""Replaces the key that signs access tokens every month: a new one is published a day before it signs.

A retired key verifies for as long as a token that it signed may live; then it is removed with its private part.
"""

import asyncio

from terracrew import backoff
from terracrew.logging import get_logger
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.keys.signing import VERIFY_AFTER_SECONDS, SigningKeys

ROTATION_SECONDS = 30 * 86400.0
LOOK_SECONDS = 3600.0
LEASE = "signing keys"
log = get_logger("terracrew.server")


class Rotation:
    def __init__(self, db: Database, signing: SigningKeys, server_id: str) -> None:
        self._db, self._signing, self._server_id = db, signing, server_id

    async def run(self) -> None:
        while True:
            await self.step()
            await asyncio.sleep(backoff.jittered(LOOK_SECONDS, 0.2))

    async def step(self) -> None:
        """One server of all takes the next step; each reads the keys, long before a new one signs."""
        if await lease.acquire(self._db, LEASE, self._server_id, LOOK_SECONDS):
            done = await self._db.write(self._rotate)
            if done:
                log.info("signing keys", done=done)
        await self._signing.load()

    async def _rotate(self, tx: Tx) -> str:
        """Take the next step, if one is due; what was done."""
        await tx.run("DELETE FROM signing_keys WHERE retired_at < :before", before=tx.now - 2 * VERIFY_AFTER_SECONDS)
        following = await tx.one(
            "SELECT id, signs_from FROM signing_keys WHERE NOT is_active AND retired_at > :now ORDER BY signs_from LIMIT 1",
            now=tx.now,
        )
        if following is not None:
            if following["signs_from"] > tx.now:
                return ""
            await tx.run(
                "UPDATE signing_keys SET is_active = :no, retired_at = :now WHERE is_active",
                no=False,
                now=tx.now,
            )
            await tx.run(
                "UPDATE signing_keys SET is_active = :yes, retired_at = NULL WHERE id = :id",
                yes=True,
                id=following["id"],
            )
            return f"{following['id']} signs from now on"
        active = await tx.one("SELECT created_at FROM signing_keys WHERE is_active")
        if active is None or tx.now - active["created_at"] < ROTATION_SECONDS:
            return ""
        return f"{await self._signing.publish_next(tx)} is published, and signs from tomorrow on"
