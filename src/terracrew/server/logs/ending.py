"""Reads the end of a log in the object store, for code that searches its last lines."""

from collections.abc import Iterator

import msgspec

from terracrew.errors import NotFound
from terracrew.protocol.events import Record
from terracrew.server.db.seam import Database
from terracrew.server.logs import chunks, object_reads
from terracrew.server.objects import Objects


class Ending(msgspec.Struct, frozen=True):
    """The last blocks of a log that was moved to the object store; empty if it was not."""

    blocks: list[bytes] = []
    first: int = 0
    """The number of the first event in them."""
    last: int = 0
    is_whole: bool = True
    """Whether nothing was moved before them."""

    def records(self) -> Iterator[tuple[int, Record]]:
        for block in self.blocks:
            yield from chunks.records(block)


async def read(db: Database, objects: Objects, job_id: str, attempt: int, max_bytes: int) -> Ending:
    """Read about `max_bytes` of the end, but at least one block."""
    part = await db.read(lambda tx: object_reads.last_part(tx, job_id, attempt))
    if part is None:
        return Ending()
    index = part.index()
    start = len(index) - 1
    total = index[start].size
    while start > 0 and total + index[start - 1].size <= max_bytes:
        start -= 1
        total += index[start].size
    wanted = index[start:]
    begin = wanted[0].offset
    try:
        data = await objects.get_range(part.object, begin, wanted[-1].offset + wanted[-1].length - begin)
    except NotFound:  # retention has removed it at this moment
        return Ending(is_whole=False)
    found = [data[block.offset - begin :][: block.length] for block in wanted]
    return Ending(found, wanted[0].first, wanted[-1].last, start == 0 and wanted[0].first_line == 0)
