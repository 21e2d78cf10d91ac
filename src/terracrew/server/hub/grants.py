"""A grant as it leaves: with the source archive in it where that is small, so that a distant runner need not ask again."""

from collections import OrderedDict

import msgspec

from terracrew.protocol.messages import Granted
from terracrew.server.jobs.claims import Won
from terracrew.server.objects import Objects

KEPT_BYTES = 64 << 20


class Archives:
    """The small archives that were granted last, kept in memory; an archive never changes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._size = 0

    async def complete(self, won: Won) -> Granted:
        if won.archive_object is None:
            return won.granted
        spec = msgspec.structs.replace(won.granted.spec, archive=await self._get(won.archive_object))
        return msgspec.structs.replace(won.granted, spec=spec)

    async def _get(self, name: str) -> bytes:
        if name in self._kept:
            self._kept.move_to_end(name)
            return self._kept[name]
        content = self._kept[name] = await self._objects.get(name)
        self._size += len(content)
        while self._size > KEPT_BYTES:
            self._size -= len(self._kept.popitem(last=False)[1])
        return content
