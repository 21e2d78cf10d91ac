"""Completes a grant with the source archive if the archive is small, which saves a distant runner a second request."""

import asyncio
from collections import OrderedDict

import msgspec

from terracrew.logging import get_logger
from terracrew.protocol.messages import Granted
from terracrew.server.jobs.attempts.claims import ClaimWon
from terracrew.server.objects import Objects

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
