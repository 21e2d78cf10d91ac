"""Replaces the key that signs access tokens every month. A new key is published a day before it signs.

A retired key verifies for longer than any token that it signed is valid. Then it is deleted with its private part.

Where clouds read copies of the public keys, which a person makes, the next key is published as soon as the one before it signs, and it
does not sign before the copies have it. The old key signs until then.
"""

import asyncio
from typing import Protocol

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


class CopiedKeys(Protocol):
    """Where clouds read the public keys, if they do not read them from this server."""

    async def published_keys(self) -> frozenset[str] | None:
        """Return the ids of the keys that clouds find there; None if they read them from this server."""
        ...

    def problem(self, signing: SigningKeys) -> str:
        """Say what is wrong there; empty if nothing is."""
        ...


class Rotation:
    def __init__(self, db: Database, signing: SigningKeys, server_id: str, copies: CopiedKeys | None = None) -> None:
        self._db, self._signing, self._server_id, self._copies = db, signing, server_id, copies

    async def run(self) -> None:
        while True:
            await self.step()
            await asyncio.sleep(backoff.jittered(LOOK_SECONDS, 0.2))

    async def step(self) -> None:
        """Let one of the servers take the next step of the rotation. Every server then reads the keys, long before a new one signs."""
        published = await self._copies.published_keys() if self._copies else None
        if await lease.acquire(self._db, LEASE, self._server_id, LOOK_SECONDS):
            done = await self._db.write(lambda tx: self._rotate(tx, published))
            if done:
                log.info("signing keys", done=done)
        await self._signing.load()
        if self._copies and (problem := self._copies.problem(self._signing)):
            log.warning("issuer", problem=problem)

    async def _rotate(self, tx: Tx, published: frozenset[str] | None) -> str:
        """Take the next step of the rotation if one is due. Returns what was done, or an empty string.

        `published` are the keys that clouds know, if they do not read them from this server.
        """
        await store.delete_retired(tx, tx.now - 2 * VERIFY_AFTER_SECONDS)
        following = await store.following(tx)
        if following is not None:
            if following["signs_from"] > tx.now or (published is not None and following["id"] not in published):
                return ""
            await store.activate(tx, following["id"])
            return f"{following['id']} signs from now on"
        since = await store.active_since(tx)
        if since is None:
            return ""
        if published is not None:
            return f"{await self._signing.publish_next(tx, since + ROTATION_SECONDS)} is published, to be copied"
        if tx.now - since < ROTATION_SECONDS:
            return ""
        return f"{await self._signing.publish_next(tx)} is published, and signs from tomorrow on"
