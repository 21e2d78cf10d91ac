"""Moves the logs of ended attempts from their rows to the object store, in steps that can be interrupted by a crash at any time.

For each part of a log:

1. The object is written under a name that nothing refers to yet, and is durable.
2. One transaction makes it known and sets `attempts.log_moved`, if no other server has done so meanwhile. From here on
   readers take these events from the object.
3. The chunks of these events, which nobody reads any more, are deleted in small batches.

A crash after 1 leaves an object that nothing refers to (`retention/orphans` removes it), and the part is written again. A
crash after 2 leaves chunks, which the next pass deletes before it does anything else.
"""

import asyncio
import tempfile
from pathlib import Path

import msgspec
import zstandard
from prometheus_client import Counter

from terracrew import backoff, ids
from terracrew.logging import get_logger
from terracrew.server.db import lease
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.statements import fragments
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.logs import blocks, chunk_reads, store
from terracrew.server.metrics.process import registry
from terracrew.server.objects import Objects

PASS_SECONDS = 60.0
SETTLE_SECONDS = 300.0
"""A log is moved this long after the end of its attempt. Most readers come before that, and rows are the fastest to read."""
MAX_OBJECT_BYTES = 128 << 20
"""The most bytes of records in one object. A longer log has several objects, so that moving it needs limited time and disk space."""
BATCH_ROWS = 200
"""The most chunks that one statement reads or deletes; fewer if they have more than `fragments.MAX_BATCH_BYTES` together."""
_PAGE_ROWS = 100
_LEASE = "move logs"
_LEASE_SECONDS = 300.0
log = get_logger("terracrew.server")


class _Log(msgspec.Struct, frozen=True):
    """The log of one attempt, which has ended."""

    job_id: str
    number: int


class Mover:
    def __init__(
        self, db: Database, objects: Objects, folder: Path, server_id: str, late_delivery_seconds: float
    ) -> None:
        self._db, self._objects, self._folder, self._server_id = db, objects, folder, server_id
        self._late_delivery_seconds = late_delivery_seconds

    async def run(self) -> None:
        while True:
            await asyncio.sleep(backoff.jittered(PASS_SECONDS))
            await self.step()

    async def step(self) -> int:
        """Move the logs that can be moved, and return how many. Another server may safely do the same at the same time."""
        count, failed = 0, 0
        while await lease.acquire(self._db, _LEASE, self._server_id, _LEASE_SECONDS):
            found = await self._db.read(lambda tx, failed=failed: self._ended(tx, failed))
            for each in found:
                try:
                    await self.move(each.job_id, each.number)
                    count += 1
                except zstandard.ZstdError:
                    log.exception("a log cannot be read, so it stays in its rows", job=each.job_id, attempt=each.number)
                    failed += 1
            if len(found) < _PAGE_ROWS:
                break
        return count

    async def _ended(self, tx: Tx, skip: int) -> list[_Log]:
        """Return attempts whose log is complete, the oldest first.

        The report about an attempt in doubt reads its chunks in one transaction, so these stay until a person has decided. An
        attempt without a result may still deliver more.
        """
        late = max(SETTLE_SECONDS, self._late_delivery_seconds)
        rows = await chunk_reads.ended_logs(tx, tx.now - SETTLE_SECONDS, tx.now - late, _PAGE_ROWS, skip)
        return rows_to(_Log, rows)

    async def move(self, job_id: str, attempt: int) -> None:
        """Move the part of this log that is stored now."""
        is_more = True
        while is_more:
            await delete_moved_chunks(self._db, job_id, attempt)
            is_more = await self._move_part(job_id, attempt)

    async def _move_part(self, job_id: str, attempt: int) -> bool:
        """Write one object and insert its row. Returns False if nothing is left to move."""
        row = await self._db.read(lambda tx: chunk_reads.marks(tx, job_id, attempt))
        if row is None:
            return False
        mark, was = row["mark"], row["log_moved"]
        with tempfile.NamedTemporaryFile(dir=self._folder, prefix="log-") as file:
            writer = blocks.Writer(file)
            after = was
            while writer.size < MAX_OBJECT_BYTES:
                rows = await self._db.read(lambda tx, after=after: _chunks(tx, job_id, attempt, after))
                if not rows:
                    break
                await asyncio.to_thread(writer.add, rows)
                after = rows[-1].last
            index = await asyncio.to_thread(writer.finish)
            if not index:
                await self._db.write(lambda tx: store.set_without_chunks(tx, job_id, attempt, mark))
                return False
            name = f"logs/{job_id}/{attempt}/{index[0].first}_{ids.new('log').removeprefix('log_')}"
            await self._objects.put(name, Path(file.name))

        async def switch(tx: Tx) -> bool:
            """Let readers take the events from the object from now on, unless another server has moved them."""
            touched = await store.set_moved(tx, job_id, attempt, was, index[-1].last)
            if touched:
                await store.insert_object(tx, job_id, attempt, name, index, writer.stored_bytes)
            return touched

        if not await self._db.write(switch):
            await self._objects.delete(name)
            return False
        moved_logs.inc()
        moved_bytes.inc(writer.stored_bytes)
        return True


async def delete_moved_chunks(db: Database, job_id: str, attempt: int) -> None:
    """Delete the chunks whose events readers take from objects, one batch at a time."""

    async def batch(tx: Tx) -> int | None:
        rows = await chunk_reads.moved_chunks(tx, job_id, attempt, BATCH_ROWS)
        chosen = fragments.leading(rows, lambda row: row["bytes"])
        return chosen[-1]["first"] if chosen else None

    while (last := await db.read(batch)) is not None:
        await db.write(lambda tx, last=last: store.delete_chunks(tx, job_id, attempt, last))


async def _chunks(tx: Tx, job_id: str, attempt: int, after: int) -> list[blocks.Row]:
    """Return the next chunks after this event, up to the size of a batch."""
    rows = await chunk_reads.following(tx, job_id, attempt, after, BATCH_ROWS, fragments.MAX_BATCH_BYTES)
    return rows_to(blocks.Row, rows)


moved_logs = Counter(
    "terracrew_log_objects_written", "Log objects that were written by moving finished logs", registry=registry
)
moved_bytes = Counter(
    "terracrew_log_moved_bytes", "Bytes of finished logs that were moved to the object store", registry=registry
)
