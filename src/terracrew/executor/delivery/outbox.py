"""The outbox: every event of an attempt, numbered from 1, in an append-only file that outlives the executor.

The file contains records exactly as they are sent, so a batch is a slice of the file. A record that was written survives a
crash of the process. `sync` makes it survive a crash of the machine, and is called before the engine learns that its state
is stored. If a crash of the machine destroys other records, that does no harm, because the attempt is lost as well. After
such a crash, the part that was not synced may contain zeros, so the file is used only up to its first damaged record.
"""

import os
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from terracrew.executor.disk_reserve import FileReserve
from terracrew.protocol import events
from terracrew.protocol.events import (
    HEADER,
    MAX_BATCH_BYTES,
    MAX_INLINE_STATE_BYTES,
    MAX_RECORD_BYTES,
    Kind,
    Record,
    Stream,
)
from terracrew.protocol.spec import MUTATING, Step
from terracrew.system import durable

RESERVE_BYTES = MAX_INLINE_STATE_BYTES + (1 << 20)
"""The bytes that the log leaves free for records that cannot wait for disk space: facts, and a state as large as an event can hold."""
_SCAN_BYTES = 1 << 20
_MUTATING_NUMBERS = frozenset(step.number for step in MUTATING)


class OutboxBatch(NamedTuple):
    first: int
    size: int
    body: bytes

    @property
    def last(self) -> int:
        return self.first + self.size - 1


class Outbox:
    def __init__(self, path: Path, on_append: Callable[[], None] = lambda: None) -> None:
        """Open the outbox of this executor or of one that has died. A record that a crash left incomplete is removed."""
        self.on_append = on_append
        self._path = path
        self._is_name_durable = False
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._disk_reserve = FileReserve(self._fd, RESERVE_BYTES)
        self._ends = array("Q", [0])  # byte positions, from the end of event `_base` on
        self._base = 0
        self._synced = 0
        self.acknowledged = 0
        self.urgent = 0
        """The number of the last event that must not wait for a batch to fill."""
        self.mutating = 0
        """The number of the last event of a step that changes real resources."""
        self.last_output = 0
        """The number of the last event with output of the engine that was found when the outbox was opened."""
        self.has_lost_events = False
        """Whether the server has events that this file lost in a crash of the machine."""
        for end, kind in self._scan():
            record = self._readable(end)
            if record is None:
                break
            self._ends.append(end)
            if kind != Kind.LOG:
                self.urgent = self.last
            elif record.stream == Stream.OUTPUT:
                self.last_output = self.last
            elif _is_padding(record):
                self.has_lost_events = True
        os.ftruncate(self._fd, self._ends[-1])

    @property
    def last(self) -> int:
        return self._base + len(self._ends) - 1

    def append(self, record: bytes) -> int:
        """Write a record and return its number. A write that fails leaves nothing behind."""
        end = self._ends[-1]
        if len(record) > MAX_RECORD_BYTES + HEADER.size:
            raise ValueError(f"a record of {len(record):,} bytes is larger than the protocol allows")
        view = memoryview(record)
        try:
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError:
            os.ftruncate(self._fd, end)
            self._disk_reserve.forget()
            raise
        self._ends.append(end + len(record))
        _, kind, _, step, _ = HEADER.unpack_from(record)
        if kind != Kind.LOG:
            self.urgent = self.last
        if step in _MUTATING_NUMBERS:
            self.mutating = self.last
        self.on_append()
        return self.last

    def has_room(self, size: int) -> bool:
        """Return whether this many bytes of log can be written without using the reserve."""
        return self._disk_reserve.keep(self._ends[-1] + size)

    def sync(self) -> None:
        """Make everything that was appended durable. The first call also syncs the directory, for the file's name."""
        if self._synced < self.last:
            os.fdatasync(self._fd)
            self._synced = self.last
        if not self._is_name_durable:
            durable.sync_directory(self._path.parent)
            self._is_name_durable = True

    def size_after(self, number: int) -> int:
        """Return the number of bytes after this event."""
        return self._ends[-1] - self._ends[number - self._base]

    def batch(self, after: int, *, up_to: int, count: int) -> OutboxBatch:
        """Return the events after `after` up to `up_to`: as many as fit into a batch, and at least one."""
        at = after - self._base
        most = min(at + count, up_to - self._base)
        start, end = self._ends[at], at + 1
        while end < most and self._ends[end + 1] - start <= MAX_BATCH_BYTES:
            end += 1
        return OutboxBatch(after + 1, end - at, os.pread(self._fd, self._ends[end] - start, start))

    def acknowledge(self, mark: int) -> None:
        """Record that the server has the events up to `mark`. Their positions are forgotten, but they stay in the file."""
        if mark > self.acknowledged:
            self.acknowledged = mark
            if (
                mark - self._base >= 4096 or mark == self.last
            ):  # in steps, because cutting off the front copies the rest
                del self._ends[: mark - self._base]
                self._base = mark

    def rewind(self, mark: int) -> None:
        """Move the mark back to what the server has, which can be less than before if a backup was restored."""
        if mark < self._base:
            self._base, self._ends = 0, array("Q", [0])
            self._ends.extend(end for end, _ in self._scan())
        self.acknowledged = mark

    def pad(self, mark: int) -> None:
        """Append empty records up to this number. They are never sent, because the server has the real ones."""
        while self.last < mark:
            self.has_lost_events = True
            self.append(events.pack(Kind.LOG, Stream.SYSTEM, Step.FETCH, 0.0, b""))

    def records(self) -> Iterator[tuple[int, Record]]:
        """Yield every event with its number, starting with the first. This reads the whole file."""
        position = 0
        for number, (end, _) in enumerate(self._scan(), start=1):
            yield number, next(events.unpack(os.pread(self._fd, end - position, position)))
            position = end

    def close(self) -> None:
        os.close(self._fd)

    def _readable(self, end: int) -> Record | None:
        """Return the record that ends here, or None if a crash damaged it, so that the server could not read it."""
        start = self._ends[-1]
        try:
            record = next(events.unpack(os.pread(self._fd, end - start, start)))
            if record.kind == Kind.FACT:
                events.fact_of(record)
            elif record.kind == Kind.STATE:
                events.state_of(record)
        except ValueError:
            return None
        return record

    def _scan(self) -> Iterator[tuple[int, int]]:
        """Yield the end and the kind of each complete record, up to the first one that is cut off."""
        size, position, window, start = os.fstat(self._fd).st_size, 0, b"", 0
        while position + HEADER.size <= size:
            if position + HEADER.size > start + len(window):
                window, start = os.pread(self._fd, _SCAN_BYTES, position), position
            length, kind, *_ = HEADER.unpack_from(window, position - start)
            position += HEADER.size + length
            if position > size or length > MAX_RECORD_BYTES or kind not in (1, 2, 3):
                return
            yield position, kind


def _is_padding(record: Record) -> bool:
    return not record.payload and record.time == 0
