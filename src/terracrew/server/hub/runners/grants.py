"""Sends grants to runners, each with its source archive if that is small, which saves a distant runner a second request."""

import asyncio
from collections import OrderedDict

import msgspec

from terracrew.logging import get_logger
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import Credentials
from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.db.availability import retry_when_back
from terracrew.server.db.seam import Database
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import ClaimRequest
from terracrew.server.jobs.attempts.claims import ClaimWon
from terracrew.server.objects import Objects
from terracrew.server.supervise import Tasks

KEPT_BYTES = 64 << 20
ARCHIVE_TIMEOUT_SECONDS = 5.0
log = get_logger("terracrew.hub")


class Archives:
    """Keeps the small archives that were granted last in memory. An archive never changes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def complete(self, won: ClaimWon) -> Granted:
        """Return the grant with the archive. This never fails, because the claim is committed; the executor can request the archive."""
        if won.archive_object is None:
            return won.granted
        try:
            async with asyncio.timeout(ARCHIVE_TIMEOUT_SECONDS):
                archive = await self._get(won.archive_object)
        except Exception as error:  # each kind of object store has errors of its own
            log.warning("a grant leaves without its archive", object=won.archive_object, reason=repr(error))
            return won.granted
        return msgspec.structs.replace(won.granted, spec=msgspec.structs.replace(won.granted.spec, archive=archive))

    async def _get(self, name: str) -> bytes:
        if name not in self._kept:
            self._keep(name, await self._objects.get(name))
        self._kept.move_to_end(name)
        return self._kept[name]

    def _keep(self, name: str, content: bytes) -> None:
        if name in self._kept:  # another task has stored it already
            return
        self._kept[name] = content
        self._size += len(content)
        while self._size > KEPT_BYTES:
            self._size -= len(self._kept.popitem(last=False)[1])


class Grants:
    """Sends the grants of committed claims, and hands back those that no runner knows of."""

    def __init__(self, db: Database, registry: Registry, archives: Archives, tasks: Tasks) -> None:
        self._db, self._registry, self._archives, self._tasks = db, registry, archives, tasks

    def send(self, session: RunnerSession, won: ClaimWon) -> None:
        """Send a grant, now if it needs no archive."""
        ref = AttemptRef(won.granted.spec.job_id, won.granted.spec.attempt)
        self._registry.grant(session, ref)
        if won.archive_object is None and self._registry.has(session):
            session.socket.post(won.granted)
        else:
            self._tasks.start(self._send_completed(session, ref, won))

    async def _send_completed(self, session: RunnerSession, ref: AttemptRef, won: ClaimWon) -> None:
        """Send a grant with its archive. If its runner has disconnected, the attempt is handed back: nothing runs."""
        granted = await self._archives.complete(won)
        if self._registry.has(session):
            session.socket.post(granted)
        else:
            await self._hand_back(ref, granted.credentials, "its runner had gone before the grant was sent")

    def take_back(self, request: ClaimRequest) -> None:
        """Hand back a claim whose answer was lost, as soon as the database is available."""
        ref = AttemptRef(request.claimant.job_id, request.claimant.attempt)
        reason = "the database went away while it was claimed"
        self._tasks.start(self._hand_back(ref, request.credentials, reason))

    async def _hand_back(self, ref: AttemptRef, own: Credentials, reason: str) -> None:
        await retry_when_back(self._db, lambda: claims.take_back(self._db, ref, own, reason))
