"""Replaces the key that signs access tokens every month. A new key is published a day before it signs.

A retired key verifies for longer than any token that it signed is valid. Then it is deleted with its private part.
"""

import asyncio

from terracrew import backoff
from terracrew.logging import get_logger
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.keys import store
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
        """Let one of the servers take the next step of the rotation. Every server then reads the keys, long before a new one signs."""
        if await lease.acquire(self._db, LEASE, self._server_id, LOOK_SECONDS):
            done = await self._db.write(self._rotate)
            if done:
                log.info("signing keys", done=done)
        await self._signing.load()

    async def _rotate(self, tx: Tx) -> str:
        """Take the next step of the rotation if one is due. Returns what was done, or an empty string."""
        await store.delete_retired(tx, tx.now - 2 * VERIFY_AFTER_SECONDS)
        following = await store.following(tx)
        if following is not None:
            if following["signs_from"] > tx.now:
                return ""
            await store.activate(tx, following["id"])
            return f"{following['id']} signs from now on"
        since = await store.active_since(tx)
        if since is None or tx.now - since < ROTATION_SECONDS:
            return ""
        return f"{await self._signing.publish_next(tx)} is published, and signs from tomorrow on"
