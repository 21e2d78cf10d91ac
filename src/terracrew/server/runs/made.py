"""Searches the end of a log that still grows for what the attempt has changed since its last state."""

import itertools

from terracrew.api.lost_resources import LoggedChange
from terracrew.protocol.events import Stream
from terracrew.server.db.seam import Tx
from terracrew.server.jobs.lost_resources import log_lines
from terracrew.server.logs import chunk_reads, chunks
from terracrew.server.logs.ending import Ending

MAX_LOG_BYTES = 2 << 20
"""How much of a log is read, from its end, to answer one question."""
MAX_RESOURCES = 200


async def since(
    tx: Tx, job_id: str, attempt: int, event: int, moved: Ending | None = None
) -> tuple[list[LoggedChange], bool]:
    """Return what the attempt's log says after this event, and whether the log was too long to be read from there.

    `moved` is the end of the part that is in the object store, which a transaction cannot read.
    """
    moved = moved or Ending()
    rows = await chunk_reads.sizes_after(tx, job_id, attempt, max(event, moved.last))
    total, start = 0, None
    for row in rows:
        total += row["size"]
        if total > MAX_LOG_BYTES:
            break
        start = row["first"]
    if start is None and rows:
        return [], True
    kept = [] if start is None else await chunk_reads.data_from(tx, job_id, attempt, start)
    is_cut = total > MAX_LOG_BYTES
    records = itertools.chain(() if is_cut else moved.records(), *(chunks.records(data) for data in kept))
    text = b"".join(record.payload for number, record in records if number > event and record.stream == Stream.OUTPUT)
    found = log_lines.changes(text.decode(errors="replace").split("\n"))
    is_cut = is_cut or len(found) > MAX_RESOURCES or (not moved.is_whole and event < moved.first)
    return found[-MAX_RESOURCES:], is_cut
