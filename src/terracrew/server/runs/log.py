"""The log of a whole run: the logs of a job's attempts in their order, and between two of them a line that says what happened.

A place in it is (attempt, number of the event). The line after attempt N is event 0 of attempt N + 1, so a reader that continues
after any place gets every event once, whichever attempt it belongs to.
"""

from collections.abc import AsyncIterator

import msgspec

from terracrew.api.job_views import LogEvent
from terracrew.protocol.events import Stream
from terracrew.server.db.seam import Database, Tx
from terracrew.server.logs import chunks, reads
from terracrew.server.logs.tail import Position
from terracrew.server.objects import Objects
from terracrew.server.runs import summary

STEP = "between"
"""The step of the lines between two attempts, which belong to no real step."""


async def after(tx: Tx, job_id: str, number: int) -> LogEvent | None:
    """Return the line that follows the log of this attempt; None if there is none yet, or if nothing needs to be said."""
    part = await summary.after(tx, job_id, number)
    if part is None or part.at is None:
        return None
    return LogEvent(0, part.at.timestamp(), STEP, Stream.SYSTEM, f"{part.text}\n", number + 1)


class LogEnd(msgspec.Struct, frozen=True):
    """Where the last part of a long log begins."""

    place: str
    """The events after this one belong to it: `<attempt>.<number>`."""
    line: int
    """How many lines come before it."""


async def end(tx: Tx, job_id: str, attempt: int | None, count: int) -> LogEnd | None:
    """Return where the last lines of a log begin, at least this many, of one attempt or of the whole run; None if there are not
    more lines in its last attempt."""
    extent = await reads.extent(tx, job_id, attempt)
    if extent.lines <= count:
        return None
    line = 0
    for number in range(1, extent.attempt) if attempt is None else ():
        line += (await reads.extent(tx, job_id, number)).lines
        line += await after(tx, job_id, number) is not None
    first = extent.lines - count
    event, skipped = await reads.before_line(tx, job_id, extent, first)
    return LogEnd(f"{extent.attempt}.{event}", line + first - skipped)


async def events(
    db: Database,
    objects: Objects,
    job_id: str,
    place: Position,
    limit: int | None = None,
    only: chunks.Only = chunks.ALL,
) -> AsyncIterator[list[LogEvent]]:
    """Yield the events after this place, in lists, up to what is stored when the end is reached."""
    number, event = place.attempt, place.event
    while True:
        async for found in reads.events(db, objects, job_id, number, event, limit, only):
            yield found
            if limit is not None and (limit := limit - len(found)) <= 0:
                return
        line, last = await db.read(lambda tx, number=number: _next(tx, job_id, number))
        if line is not None and only.has_between(line.time):
            yield [line]
            if limit is not None and (limit := limit - 1) <= 0:
                return
        if number >= last:
            return
        number, event = number + 1, 0


async def text(db: Database, objects: Objects, job_id: str, only: chunks.Only = chunks.ALL) -> AsyncIterator[bytes]:
    """Yield the whole log as it was printed; the lines between two attempts are marked, and always start on a new line."""
    number, is_open = 1, False
    while True:
        async for piece in reads.text(db, objects, job_id, number, only):
            is_open = not piece.endswith(b"\n") if piece else is_open
            yield piece
        line, last = await db.read(lambda tx, number=number: _next(tx, job_id, number))
        if line is not None and only.has_between(line.time):
            yield ("\n" if is_open else "").encode() + f"── {line.text.rstrip()} ──\n".encode()
            is_open = False
        if number >= last:
            return
        number += 1


async def _next(tx: Tx, job_id: str, number: int) -> tuple[LogEvent | None, int]:
    return await after(tx, job_id, number), (await reads.progress(tx, job_id)).attempt
