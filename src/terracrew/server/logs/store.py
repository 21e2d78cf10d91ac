"""Rows of log chunks: any range is found by its event numbers or its lines, without reading the rest."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import msgspec

from terracrew.errors import NotFound
from terracrew.server.db.mapping import row_to, rows_to
from terracrew.server.db.seam import Database, Tx
from terracrew.server.logs import chunks
from terracrew.server.logs.chunks import LogEvent

PAGE = 1 << 20
"""About how many bytes of log are read in one go; a single chunk may be larger."""
THREAD_ABOVE = 64 << 10
T = TypeVar("T")


class Stored(msgspec.Struct, frozen=True):
    """A chunk as it lies in its row."""

    last: int
    size: int
    data: bytes

    async def open(self, decode: Callable[[bytes], T]) -> T:
        """Decode it, not on the event loop where that would be felt."""
        return await asyncio.to_thread(decode, self.data) if self.size > THREAD_ABOVE else decode(self.data)


class Extent(msgspec.Struct, frozen=True):
    """How much there is of an attempt's log: its lines, and the number of the last event that is stored."""

    attempt: int
    mark: int
    lines: int


class Standing(msgspec.Struct, frozen=True):
    """Whether more of a job's log can come, and of which attempt."""

    attempt: int
    is_terminal: bool


async def standing(tx: Tx, job_id: str) -> Standing:
    row = await tx.one(
        "SELECT attempt, finished_at IS NOT NULL AS is_terminal FROM jobs WHERE id = :job_id", job_id=job_id
    )
    if row is None:
        raise NotFound(f"there is no job {job_id}")
    return row_to(Standing, row)


async def extent(tx: Tx, job_id: str, attempt: int | None = None) -> Extent:
    """Of this attempt, else of the last one that anybody owned; of nothing where nobody ever did."""
    row = await tx.one(
        """SELECT number AS attempt, mark, lines FROM attempts
        WHERE job_id = :job_id AND (CAST(:attempt AS bigint) IS NULL OR number = :attempt)
        ORDER BY number DESC LIMIT 1""",
        job_id=job_id, attempt=attempt,
    )  # fmt: skip
    if row is not None:
        return row_to(Extent, row)
    if attempt is not None:
        raise NotFound(f"job {job_id} has had no attempt {attempt}")
    return Extent(1, 0, 0)


async def page(tx: Tx, job_id: str, attempt: int, after: int, size: int = PAGE) -> list[Stored]:
    """The next chunks with events after this one: about `size` bytes of log, but never none if there is one."""
    rows = await tx.all(
        """SELECT log_chunks.last, log_chunks.size, log_chunks.data
        FROM (
            SELECT job_id, attempt, first, sum(size) OVER (ORDER BY first) - size AS before
            FROM (
                SELECT job_id, attempt, first, size FROM log_chunks
                WHERE job_id = :job_id AND attempt = :attempt AND last > :after AND first >= coalesce((
                    SELECT max(first) FROM log_chunks
                    WHERE job_id = :job_id AND attempt = :attempt AND first <= :next), 0)
                ORDER BY first LIMIT 500
            ) AS following
        ) AS near
        JOIN log_chunks USING (job_id, attempt, first)
        WHERE near.before < :size ORDER BY first""",
        job_id=job_id, attempt=attempt, after=after, next=after + 1, size=size,
    )  # fmt: skip
    return rows_to(Stored, rows)


async def events(
    db: Database, job_id: str, attempt: int, after: int = 0, limit: int | None = None
) -> AsyncIterator[list[LogEvent]]:
    """The events after this one, in lists, up to what is stored when the end is reached."""
    async for chunk in _following(db, job_id, attempt, after):
        found = await chunk.open(lambda data: list(chunks.events(data, after)))
        if limit is not None and len(found) >= limit:
            yield found[:limit]
            return
        limit = limit and limit - len(found)
        yield found


async def text(db: Database, job_id: str, attempt: int) -> AsyncIterator[bytes]:
    """The whole log, as it was printed, up to what is stored when the end is reached."""
    async for chunk in _following(db, job_id, attempt, 0):
        yield await chunk.open(chunks.text)


async def _following(db: Database, job_id: str, attempt: int, after: int) -> AsyncIterator[Stored]:
    while stored := await db.read(lambda tx, after=after: page(tx, job_id, attempt, after)):
        for chunk in stored:
            yield chunk
        after = stored[-1].last


async def lines(tx: Tx, job_id: str, log: Extent, start: int, count: int) -> bytes:
    """The text of `count` lines; the first line of a log is line 0."""
    after, skip = await _before_line(tx, job_id, log, start)
    kept, wanted = bytearray(), count
    while wanted > 0 and (stored := await page(tx, job_id, log.attempt, after)):
        for chunk in stored:
            body = chunks.text(chunk.data)
            begin = _end_of_lines(body, skip)
            end = _end_of_lines(body, wanted, begin)
            kept += body[begin:end]
            skip -= body.count(b"\n", 0, begin)
            wanted -= body.count(b"\n", begin, end)
        after = stored[-1].last
    return bytes(kept)


async def _before_line(tx: Tx, job_id: str, log: Extent, line: int) -> tuple[int, int]:
    """After which event the chunk comes in which this line starts, and how many lines to skip in it.

    Found by halving: chunks have their lines in the order of their numbers.
    """
    after, skip = 0, line
    low, high = 0, log.mark + 1
    while line > 0 and high - low > 1:
        middle = (low + high) // 2
        row = await tx.one(
            """SELECT first, last, first_line FROM log_chunks
            WHERE job_id = :job_id AND attempt = :attempt AND first <= :middle ORDER BY first DESC LIMIT 1""",
            job_id=job_id, attempt=log.attempt, middle=middle,
        )  # fmt: skip
        if row is None:
            low = middle
        elif row["first_line"] < line:
            after, skip = row["first"] - 1, line - row["first_line"]
            low = max(middle, row["last"])
        else:
            high = row["first"]
    return after, skip


def _end_of_lines(body: bytes, count: int, start: int = 0) -> int:
    """Where, from `start` on, so many lines are over; the end of the body where they are not."""
    for _ in range(count):
        at = body.find(b"\n", start)
        if at < 0:
            return len(body)
        start = at + 1
    return start
