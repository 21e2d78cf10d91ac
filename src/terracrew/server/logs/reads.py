"""Reads logs. Any range is found by its event numbers or its lines, without reading the rest.

A log is in rows of chunks while its attempt runs, and in objects later (`mover`). Events up to `attempts.log_moved` are read
from objects, those after it from chunks, so a reader that continues by event numbers gets each event once, even while a log is moved.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import LiteralString, TypeVar

import msgspec

from terracrew.api.job_views import LogEvent
from terracrew.errors import NotFound
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.logs import chunks, object_reads
from terracrew.server.objects import Objects

PAGE_BYTES = 1 << 20
"""About how many bytes of log are read at once. A single chunk may be larger."""
MAX_PAGE_CHUNKS = 500
THREAD_ABOVE_BYTES = 64 << 10
T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True):
    """A chunk with its data, or a block whose data has yet to be read from the object store."""

    last: int
    size: int
    data: bytes = b""
    object: str = ""
    offset: int = 0
    length: int = 0
    first_line: int = 0
    """How many line feeds come before it."""
    lines: int = 0

    async def open(self, decode: Callable[[bytes], T]) -> T:
        """Decode the data, in a thread if it is so large that it would block the event loop."""
        return await asyncio.to_thread(decode, self.data) if self.size > THREAD_ABOVE_BYTES else decode(self.data)


class LogPage(msgspec.Struct, frozen=True):
    """A part of a log, and whether nothing was stored after it."""

    stored: list[Stored]
    is_last: bool


class Extent(msgspec.Struct, frozen=True):
    """The extent of an attempt's log: its lines, and the number of the last stored event."""

    attempt: int
    mark: int
    lines: int


class AttemptExtent(Extent, frozen=True, kw_only=True):
    """The extent of the log of an attempt, and whether the attempt runs."""

    is_live: bool


class LogProgress(msgspec.Struct, frozen=True):
    """Whether more of a job's log can arrive, and from which attempt."""

    attempt: int
    is_terminal: bool
    has_plan: bool = False
    """Whether its last attempt made a plan that waited for a decision. What became of it is told after the log."""


async def progress(tx: Tx, job_id: str) -> LogProgress:
    row = await tx.one(
        "SELECT attempt, finished_at IS NOT NULL AS is_terminal FROM jobs WHERE id = :job_id", job_id=job_id
    )
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(LogProgress, row)


async def extent(tx: Tx, job_id: str, attempt: int | None = None) -> Extent:
    """Return the status of the log of this attempt, or of the last one that had an owner."""
    row = await tx.one(
        """SELECT number AS attempt, mark, CASE WHEN log_removed_at IS NULL THEN lines ELSE 1 END AS lines FROM attempts
        WHERE job_id = :job_id AND (CAST(:attempt AS bigint) IS NULL OR number = :attempt)
        ORDER BY number DESC LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
    )
    if row is not None:
        return row_to(Extent, row)
    if attempt is not None:
        raise NotFound(f"job {job_id} has had no attempt {attempt}")
    return Extent(1, 0, 0)


async def extents(tx: Tx, job_id: str) -> list[AttemptExtent]:
    """Return the extents of the logs of all attempts, in their order."""
    rows = await tx.all(
        """SELECT number AS attempt, mark, CASE WHEN log_removed_at IS NULL THEN lines ELSE 1 END AS lines,
            ended_at IS NULL AS is_live
        FROM attempts WHERE job_id = :job_id ORDER BY number""",
        job_id=job_id,
    )
    return rows_to(AttemptExtent, rows)


async def tail(tx: Tx, job_id: str, attempt: int, after: int, size: int) -> tuple[LogProgress, LogPage]:
    """Return the progress of the job and a page of its log after this event.

    The progress is read first: if the job has ended by then, its whole log is stored. So is everything up to the mark.
    """
    row = await tx.one(
        """SELECT jobs.attempt, jobs.finished_at IS NOT NULL AS is_terminal, coalesce(attempts.mark, 0) AS mark,
            coalesce(jobs.plan_attempt = jobs.attempt, false) AS has_plan,
            attempts.ended_at IS NULL AS is_in_rows
        FROM jobs LEFT JOIN attempts ON attempts.job_id = jobs.id AND attempts.number = :attempt
        WHERE jobs.id = :job_id""",
        job_id=job_id,
        attempt=attempt,
    )
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    progress = row_to(LogProgress, row)
    if row["mark"] <= after:
        return progress, LogPage([], is_last=True)
    return progress, await page(tx, job_id, attempt, after, size, is_in_rows=row["is_in_rows"])


async def page(
    tx: Tx, job_id: str, attempt: int, after: int, size: int = PAGE_BYTES, *, is_in_rows: bool = False
) -> LogPage:
    """Return the next chunks or blocks with events after this one: about `size` bytes of log, but at least one if there is one.

    `is_in_rows` tells that the attempt has not ended. Its log is not moved before some minutes after that.

    The chunks are read first. PostgreSQL shows each statement what is committed when it starts, and the chunks of a log are
    deleted only after its object is known, so a chunk that was deleted before the first statement is found by the second.
    """
    rows = await tx.all(
        """SELECT log_chunks.first, log_chunks.last, log_chunks.size, log_chunks.data, log_chunks.first_line, log_chunks.lines
        FROM (
            SELECT job_id, attempt, first, sum(size) OVER (ORDER BY first) - size AS before
            FROM (
                SELECT job_id, attempt, first, size FROM log_chunks
                WHERE job_id = :job_id AND attempt = :attempt AND last > :after AND first >= coalesce((
                    SELECT max(first) FROM log_chunks
                    WHERE job_id = :job_id AND attempt = :attempt AND first <= :next), 0)
                ORDER BY first LIMIT :most
            ) AS following
        ) AS near
        JOIN log_chunks USING (job_id, attempt, first)
        WHERE near.before < :size ORDER BY first""",
        job_id=job_id,
        attempt=attempt,
        after=after,
        next=after + 1,
        size=size,
        most=MAX_PAGE_CHUNKS,
    )
    found = LogPage(
        rows_to(Stored, rows), is_last=len(rows) < MAX_PAGE_CHUNKS and sum(row["size"] for row in rows) < size
    )
    if is_in_rows or (rows and rows[0]["first"] <= after + 1):
        return found
    part = await object_reads.part_after(tx, job_id, attempt, after)
    if isinstance(part, object_reads.Part):
        return LogPage(_blocks(part, after, size), is_last=False)
    if part is not None:
        notice = part.notice()
        return LogPage([Stored(notice.last, notice.size, notice.data, lines=notice.lines)], is_last=False)
    return found


def _blocks(part: object_reads.Part, after: int, size: int) -> list[Stored]:
    found: list[Stored] = []
    for block in part.index():
        if block.last > after and size > 0:
            found.append(
                Stored(
                    block.last,
                    block.size,
                    b"",
                    part.object,
                    block.offset,
                    block.length,
                    block.first_line,
                    block.lines,
                )
            )
            size -= block.size
    return found


async def load(objects: Objects, stored: list[Stored]) -> list[Stored]:
    """Return the blocks with their data. The blocks of a page are adjacent in one object, so they are read as one range."""
    if not stored or not stored[0].object:
        return stored
    first, last = stored[0], stored[-1]
    data = await objects.get_range(first.object, first.offset, last.offset + last.length - first.offset)
    return [
        msgspec.structs.replace(each, data=data[each.offset - first.offset :][: each.length], object="")
        for each in stored
    ]


async def read_page(
    db: Database, objects: Objects, job_id: str, attempt: int, after: int, size: int = PAGE_BYTES
) -> list[Stored]:
    """Return the next chunks or blocks with events after this one, with their data."""
    found = await db.read(lambda tx: page(tx, job_id, attempt, after, size))
    return await load_or_say(db, objects, job_id, attempt, after, found.stored)


async def load_or_say(
    db: Database, objects: Objects, job_id: str, attempt: int, after: int, stored: list[Stored]
) -> list[Stored]:
    """Load the data of a page. If its object is missing, return a line that says so."""
    try:
        return await load(objects, stored)
    except NotFound:
        again = (await db.read(lambda tx: page(tx, job_id, attempt, after))).stored
    try:
        return await load(objects, again)  # retention has removed the log between the two reads, or it is lost
    except NotFound:
        last = again[-1].last
        text = f"Events up to {last} of this log are missing: the object store has no object {again[0].object}.\n"
        notice = object_reads.notice(last, 0.0, text)
        return [Stored(notice.last, notice.size, notice.data, lines=notice.lines)]


async def events(
    db: Database,
    objects: Objects,
    job_id: str,
    attempt: int,
    after: int = 0,
    limit: int | None = None,
    only: chunks.Only = chunks.ALL,
) -> AsyncIterator[list[LogEvent]]:
    """Yield the events after this one, in lists, up to what is stored when the end is reached."""
    start = await _start(db, job_id, attempt, after, only)
    async for chunk in _following(db, objects, job_id, attempt, start):
        found = await chunk.open(lambda data: list(chunks.events(data, after, attempt, only)))
        if limit is not None and len(found) >= limit:
            yield found[:limit]
            return
        limit = limit and limit - len(found)
        yield found


async def text(
    db: Database, objects: Objects, job_id: str, attempt: int, only: chunks.Only = chunks.ALL
) -> AsyncIterator[bytes]:
    """Yield the log, as it was printed, up to what is stored when the end is reached."""
    start = await _start(db, job_id, attempt, 0, only)
    async for chunk in _following(db, objects, job_id, attempt, start):
        yield await chunk.open(lambda data: chunks.text(data, only))


async def _start(db: Database, job_id: str, attempt: int, after: int, only: chunks.Only) -> int:
    """Return the event after which the events that are wanted begin."""
    if only.since is None:
        return after

    async def read(tx: Tx) -> int:
        return await before_time(tx, job_id, await extent(tx, job_id, attempt), only.since)

    try:
        return max(after, await db.read(read))
    except NotFound:  # a job whose first attempt nobody has had
        return after


async def _following(db: Database, objects: Objects, job_id: str, attempt: int, after: int) -> AsyncIterator[Stored]:
    while stored := await read_page(db, objects, job_id, attempt, after):
        for chunk in stored:
            yield chunk
        after = stored[-1].last


async def lines(db: Database, objects: Objects, job_id: str, log: Extent, start: int, count: int) -> bytes:
    """Return the text of `count` lines. The first line of a log is line 0."""
    after, skip = await db.read(lambda tx: before_line(tx, job_id, log, start))
    kept, wanted = bytearray(), count
    while wanted > 0 and (stored := await read_page(db, objects, job_id, log.attempt, after)):
        for chunk in stored:
            body = await chunk.open(chunks.text)
            begin = _end_of_lines(body, skip)
            end = _end_of_lines(body, wanted, begin)
            kept += body[begin:end]
            skip -= body.count(b"\n", 0, begin)
            wanted -= body.count(b"\n", begin, end)
        after = stored[-1].last
    return bytes(kept)


async def before_line(tx: Tx, job_id: str, log: Extent, line: int) -> tuple[int, int]:
    """Return the event after which the chunk or block with this line begins, and how many lines to skip in it. Lines count from 0.

    If the log was moved in the meantime, the position is also valid in its object, since both use event numbers.
    """
    if line <= 0:
        return 0, line
    chunk = await _last_chunk(tx, job_id, log, "first_line", lambda row: row["first_line"] < line)
    if chunk is not None:
        return chunk["first"] - 1, line - chunk["first_line"]
    if part := await object_reads.part_before_line(tx, job_id, log.attempt, line):
        block = next(block for block in reversed(part.index()) if block.first_line < line)
        return block.first - 1, line - block.first_line
    return 0, line


async def before_time(tx: Tx, job_id: str, log: Extent, at: float | None) -> int:
    """Return an event after which everything is that has this time or a later one, if the times of events are in their order."""
    if at is None:
        return 0
    chunk = await _last_chunk(tx, job_id, log, "data", lambda row: chunks.first_time(bytes(row["data"])) < at)
    return await object_reads.before_time(tx, job_id, log.attempt, at) if chunk is None else chunk["first"] - 1


async def _last_chunk(
    tx: Tx, job_id: str, log: Extent, column: LiteralString, is_before: Callable[[Row], bool]
) -> Row | None:
    """Return the last chunk that begins before a place, by binary search: lines and times are in the order of event numbers."""
    found, low, high = None, 0, log.mark + 1
    while high - low > 1:
        middle = (low + high) // 2
        row = await tx.one(
            f"SELECT first, last, {column} FROM log_chunks"
            " WHERE job_id = :job_id AND attempt = :attempt AND first <= :middle ORDER BY first DESC LIMIT 1",
            job_id=job_id,
            attempt=log.attempt,
            middle=middle,
        )
        if row is None:
            low = middle
        elif is_before(row):
            found, low = row, max(middle, row["last"])
        else:
            high = row["first"]
    return found


def _end_of_lines(body: bytes, count: int, start: int = 0) -> int:
    """Return the position after `count` lines from `start` on, or the end of the body if it has fewer."""
    for _ in range(count):
        at = body.find(b"\n", start)
        if at < 0:
            return len(body)
        start = at + 1
    return start
