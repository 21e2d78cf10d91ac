"""The parts of a log in the object store, the line that replaces a removed log, and the statements that read which there are."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from terracrew.protocol.events import Kind, Record, Stream
from terracrew.protocol.spec import Step
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.logs import blocks, chunks
from terracrew.server.logs.blocks import Block


class Part(msgspec.Struct, frozen=True):
    """The part of a log that is in one object."""

    object: str
    stored_bytes: int
    blocks: bytes

    def index(self) -> list[Block]:
        return blocks.decode_index(self.blocks)


class Removal(msgspec.Struct, frozen=True):
    """Says that retention has removed the log up to the event `log_moved`."""

    log_moved: int
    log_removed_at: float
    log_removed_days: float

    def notice(self) -> chunks.Chunk:
        """Return the one line that replaces a removed log."""
        day = datetime.fromtimestamp(self.log_removed_at, UTC)
        text = f"This log was removed on {day:%Y-%m-%d} by retention after {self.log_removed_days:g} days.\n"
        return notice(self.log_moved, self.log_removed_at, text)


def notice(event: int, time: float, text: str) -> chunks.Chunk:
    """Return a chunk with a line of the server's own that replaces the events up to this one."""
    packed = chunks.pack([(event, Record(Kind.LOG, Stream.SYSTEM, Step.FETCH.number, time, text.encode()))])
    assert packed is not None
    return packed


async def part_after(tx: Tx, job_id: str, attempt: int, after: int) -> Part | Removal | None:
    """Return the first part that has events after this one. None if those are in chunks, or if there are none."""
    row = await tx.one(
        """SELECT attempts.log_moved, attempts.log_removed_at, attempts.log_removed_days,
            log_objects.object, log_objects.stored_bytes, log_objects.blocks
        FROM attempts LEFT JOIN log_objects ON log_objects.job_id = attempts.job_id
            AND log_objects.attempt = attempts.number AND log_objects.last > :after
        WHERE attempts.job_id = :job_id AND attempts.number = :attempt ORDER BY log_objects.first LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
        after=after,
    )
    if row is None:
        return None
    if row["object"] is not None:
        return row_to(Part, row)
    is_removed = row["log_removed_at"] is not None and row["log_moved"] > after
    return row_to(Removal, row) if is_removed else None


async def part_before_line(tx: Tx, job_id: str, attempt: int, line: int) -> Part | None:
    """Return the last part that has fewer line feeds than this before it."""
    row = await tx.one(
        """SELECT object, stored_bytes, blocks FROM log_objects
        WHERE job_id = :job_id AND attempt = :attempt AND first_line < :line ORDER BY first DESC LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
        line=line,
    )
    return None if row is None else row_to(Part, row)


async def before_time(tx: Tx, job_id: str, attempt: int, at: float) -> int:
    """Return an event before the last block that begins before this time; 0 if there is none, or none with a known time."""
    rows = await tx.all(
        """SELECT object, stored_bytes, blocks FROM log_objects
        WHERE job_id = :job_id AND attempt = :attempt ORDER BY first DESC""",
        job_id=job_id,
        attempt=attempt,
    )
    found = (block for row in rows for block in reversed(row_to(Part, row).index()) if 0 < block.time < at)
    return next((block.first - 1 for block in found), 0)


async def last_part(tx: Tx, job_id: str, attempt: int) -> Part | None:
    row = await tx.one(
        """SELECT object, stored_bytes, blocks FROM log_objects
        WHERE job_id = :job_id AND attempt = :attempt ORDER BY first DESC LIMIT 1""",
        job_id=job_id,
        attempt=attempt,
    )
    return None if row is None else row_to(Part, row)


async def names(tx: Tx, attempts: Sequence[tuple[str, int]]) -> set[str]:
    """Return the objects that hold the logs of these attempts (job, number)."""
    rows = await tx.each(
        """SELECT log_objects.object FROM batch JOIN log_objects ON log_objects.job_id = batch.job_id
            AND log_objects.attempt = batch.attempt""",
        {"job_id": "text", "attempt": "bigint"},
        attempts,
    )
    return {row["object"] for row in rows}


async def removable(tx: Tx, after: tuple[str, int], newest: str, before: float, limit: int) -> list[Row]:
    """Return logs of jobs that ended before this time and that are whole in the object store, after this attempt.

    The log of an attempt in doubt is left out. `newest` is an id that sorts behind all jobs in question.
    """
    return await tx.all(
        """SELECT log_objects.job_id AS id, log_objects.attempt AS number, CAST(sum(log_objects.stored_bytes) AS bigint) AS bytes
        FROM log_objects JOIN attempts ON attempts.job_id = log_objects.job_id AND attempts.number = log_objects.attempt
        JOIN jobs ON jobs.id = log_objects.job_id
        WHERE (log_objects.job_id, log_objects.attempt) > (:after, :number) AND log_objects.job_id < :newest
            AND attempts.ended_at <= :before AND jobs.finished_at <= :before
            AND NOT attempts.has_log_chunks AND NOT attempts.is_in_doubt
        GROUP BY log_objects.job_id, log_objects.attempt ORDER BY log_objects.job_id, log_objects.attempt LIMIT :limit""",
        after=after[0],
        number=after[1],
        newest=newest,
        before=before,
        limit=limit,
    )
