"""Rows of logs: chunks, the objects that chunks were moved to, and the columns of an attempt that describe its log."""

from collections.abc import Sequence

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements import fragments
from terracrew.server.db.statements.table import Table, values
from terracrew.server.logs import blocks
from terracrew.server.logs.blocks import Block
from terracrew.server.logs.chunks import Chunk


class ChunkRow(Chunk, frozen=True, kw_only=True):
    """A chunk of the log of an attempt."""

    job_id: str
    attempt: int
    first_line: int


CHUNKS = Table("log_chunks", ChunkRow)
_INSERT_CHUNKS = CHUNKS.insert_batch(*CHUNKS.fields) + " ON CONFLICT DO NOTHING"


async def insert_chunks(tx: Tx, rows: Sequence[ChunkRow]) -> None:
    """Insert chunks with one statement."""
    await tx.each(_INSERT_CHUNKS, CHUNKS.types, [values(row) for row in rows])


async def delete_chunks(tx: Tx, job_id: str, attempt: int, last: int) -> int:
    """Delete the chunks of an attempt that begin at or before this event, and return how many."""
    return await tx.run(
        "DELETE FROM log_chunks WHERE job_id = :job_id AND attempt = :attempt AND first <= :last",
        job_id=job_id,
        attempt=attempt,
        last=last,
    )


async def delete_batch(tx: Tx, job_id: str, count: int) -> int:
    """Delete the next chunks of one attempt of a deleted job, a bounded number of bytes, and return how many."""
    rows = await tx.all(
        """SELECT attempt, first, length(data) AS bytes FROM log_chunks WHERE job_id = :job_id
        ORDER BY attempt, first LIMIT :count""",
        job_id=job_id,
        count=count,
    )
    if not rows:
        return 0
    attempt = rows[0]["attempt"]
    chosen = fragments.leading([row for row in rows if row["attempt"] == attempt], lambda row: row["bytes"])
    return await delete_chunks(tx, job_id, attempt, chosen[-1]["first"])


async def insert_object(
    tx: Tx, job_id: str, attempt: int, name: str, index: Sequence[Block], stored_bytes: int
) -> None:
    """Record which events of a log are in an object."""
    first, last = index[0], index[-1]
    await tx.run(
        """INSERT INTO log_objects (job_id, attempt, first, last, first_line, lines, size, stored_bytes, object, blocks,
            created_at)
        VALUES (:job_id, :attempt, :first, :last, :first_line, :lines, :size, :stored_bytes, :object, :blocks, :now)""",
        job_id=job_id,
        attempt=attempt,
        first=first.first,
        last=last.last,
        first_line=first.first_line,
        lines=sum(block.lines for block in index),
        size=sum(block.size for block in index),
        stored_bytes=stored_bytes,
        object=name,
        blocks=blocks.encode_index(list(index)),
        now=tx.now,
    )


async def delete_objects(tx: Tx, job_id: str, attempt: int | None = None) -> list[str]:
    """Delete the rows of the objects of an attempt, or of a whole job, and return the names of the objects."""
    rows = await tx.all(
        """DELETE FROM log_objects WHERE job_id = :job_id AND (CAST(:attempt AS bigint) IS NULL OR attempt = :attempt)
        RETURNING object""",
        job_id=job_id,
        attempt=attempt,
    )
    return [row["object"] for row in rows]


async def set_moved(tx: Tx, job_id: str, attempt: int, was: int, last: int) -> bool:
    """Let readers take events up to this one from objects. Returns False if another server has moved them in the meantime."""
    return bool(
        await tx.run(
            "UPDATE attempts SET log_moved = :last WHERE job_id = :job_id AND number = :attempt AND log_moved = :was",
            last=last,
            job_id=job_id,
            attempt=attempt,
            was=was,
        )
    )


async def set_without_chunks(tx: Tx, job_id: str, attempt: int, mark: int) -> None:
    """Record that nothing is left to move, unless something was delivered since the mark was read."""
    await tx.run(
        "UPDATE attempts SET has_log_chunks = false WHERE job_id = :job_id AND number = :attempt AND mark = :mark",
        job_id=job_id,
        attempt=attempt,
        mark=mark,
    )


async def set_removed(tx: Tx, job_id: str, attempt: int, days: float | None) -> bool:
    """Record that retention removes a log now. Returns False if something was delivered in the meantime."""
    return bool(
        await tx.run(
            """UPDATE attempts SET log_removed_at = :now, log_removed_days = :days
            WHERE job_id = :job_id AND number = :attempt AND NOT has_log_chunks""",
            now=tx.now,
            days=days,
            job_id=job_id,
            attempt=attempt,
        )
    )
