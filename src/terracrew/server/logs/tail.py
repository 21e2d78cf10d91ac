"""Caches the end of a log for its viewers, so that it is decoded once for all of them."""

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from typing import TypeAlias

import msgspec

from terracrew.api.job_views import LogEvent
from terracrew.server.db.seam import Database
from terracrew.server.logs import chunks, reads
from terracrew.server.logs.reads import LogProgress, Stored
from terracrew.server.objects import Objects

BATCH_BYTES = 128 << 10
"""The size of the text in one batch, which a browser can render without a visible delay."""
CACHE_BYTES = 8 << 20


class Position(msgspec.Struct, frozen=True):
    """The position of a viewer: the last event that it has."""

    attempt: int
    event: int


class Cursor(msgspec.Struct, frozen=True):
    """How far a viewer is in the log of a whole run, as text: `3.17`, or `3.17,2.40` if attempt 2 may still deliver lines."""

    main: Position
    late: tuple[Position, ...] = ()
    """Earlier attempts that were lost and may still deliver log lines."""

    def __str__(self) -> str:
        return ",".join(f"{each.attempt}.{each.event}" for each in (self.main, *self.late))


class TailBatch(msgspec.Struct, frozen=True):
    """Events that follow a position, as a JSON list, and the position after them."""

    position: Position
    data: bytes
    progress: LogProgress | None = None
    """The progress of the job when this was read, if nothing followed the batch then. None if something did, or if the read may
    have begun before it was asked for: then the next one tells."""

    @property
    def cost(self) -> int:
        return len(self.data) + 500  # what the objects around it take


class _TailRead(msgspec.Struct, frozen=True):
    """What a read has found: the progress of the job, the first batch, and whether nothing follows it yet."""

    progress: LogProgress
    batch: TailBatch | None = None
    is_last: bool = False


_Place: TypeAlias = tuple[str, Position]


class Tails:
    """A cache of batches. The viewers of one job are mostly at the same position, so one read serves all of them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._batches: OrderedDict[_Place, TailBatch] = OrderedDict()
        self._reading: dict[_Place, asyncio.Task[_TailRead]] = {}
        self.used = 0

    async def next(self, db: Database, job_id: str, position: Position) -> TailBatch | LogProgress:
        """Return the batch that follows. If nothing follows yet, return the progress of the job."""
        place = (job_id, position)
        if batch := self._batches.get(place):
            self._batches.move_to_end(place)
            return batch
        if joined := self._reading.get(place):
            found = await asyncio.shield(joined)
            if found.batch is not None:
                return found.batch
            # That read may have begun before the wake-up that led here, so "nothing new" is not a valid answer yet.
        reading = self._reading.get(place)
        if is_own := reading is None:
            reading = self._reading[place] = asyncio.create_task(self._read(db, job_id, position))
            reading.add_done_callback(lambda done: self._done(place, done))
        found = await asyncio.shield(reading)
        if found.batch is None:
            return found.progress
        return (
            msgspec.structs.replace(found.batch, progress=found.progress) if is_own and found.is_last else found.batch
        )

    def clear(self) -> None:
        self._batches.clear()
        self.used = 0

    async def _read(self, db: Database, job_id: str, position: Position) -> _TailRead:
        progress, found = await db.read(
            lambda tx: reads.tail(tx, job_id, position.attempt, position.event, BATCH_BYTES)
        )
        if not found.stored:
            return _TailRead(progress)
        stored = await reads.load_or_say(db, self._objects, job_id, position.attempt, position.event, found.stored)
        if not stored:  # the module was deleted at this moment
            return _TailRead(progress)
        is_large = sum(chunk.size for chunk in stored) > reads.THREAD_ABOVE_BYTES
        batches = await asyncio.to_thread(_batches, stored, position) if is_large else _batches(stored, position)
        for batch in batches:
            self._keep((job_id, position), batch)
            position = batch.position
        return _TailRead(progress, batches[0], is_last=found.is_last and len(batches) == 1)

    def _keep(self, place: _Place, batch: TailBatch) -> None:
        if old := self._batches.pop(place, None):
            self.used -= old.cost
        self._batches[place] = batch
        self.used += batch.cost
        while self.used > CACHE_BYTES:
            self.used -= self._batches.popitem(last=False)[1].cost

    def _done(self, place: _Place, reading: "asyncio.Task[_TailRead]") -> None:
        del self._reading[place]
        if not reading.cancelled():
            reading.exception()  # marks it as retrieved: perhaps nobody waits for it any more


def _batches(stored: Sequence[Stored], position: Position) -> list[TailBatch]:
    batches: list[TailBatch] = []
    events: list[LogEvent] = []
    size = 0
    for chunk in stored:
        for event in chunks.events(chunk.data, position.event, position.attempt):
            if events and size + len(event.text) > BATCH_BYTES:
                batches.append(_batch(position.attempt, events))
                events, size = [], 0
            events.append(event)
            size += len(event.text)
    return [*batches, _batch(position.attempt, events)]


def _batch(attempt: int, events: list[LogEvent]) -> TailBatch:
    return TailBatch(Position(attempt, events[-1].n), msgspec.json.encode(events))
