"""Writes an attempt's events: what the engine printed, what Terracrew says beside it, and facts."""

import errno
import os
import struct
import time
from pathlib import Path
from typing import NamedTuple

from terracrew.executor.delivery.outbox import Outbox
from terracrew.masking import facts
from terracrew.masking.redactor import Redactor
from terracrew.protocol import events
from terracrew.protocol.events import Fact, Kind, Result, Stream
from terracrew.protocol.spec import Step

_SLOT = struct.Struct(">QQ")
_MAX_LINE_CHARACTERS = 8000


class Offsets:
    """How far the output has been turned into events: two slots, written in turn before the event itself.

    After a crash of the process the slot with the highest number that is really in the outbox tells where to read on, so
    that no line is lost or repeated whichever of the two writes was the last. A crash of the machine may leave slots that
    are older than the outbox, or newer. They are therefore not synced with each event but checked when they are read.
    """

    def __init__(self, path: Path, outbox: Outbox) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        slots = [_SLOT.unpack_from(data) for at in (0, 1) if len(data := os.pread(self._fd, 16, at * 16)) == _SLOT.size]
        number, self.position = max((slot for slot in slots if slot[0] <= outbox.last), default=(0, 0))
        self.is_known = outbox.last_output <= number and not outbox.has_lost_events
        """False where the outbox has output that no slot accounts for: reading on from here would repeat lines."""
        if slots:  # a slot of an event that was never written must not come true later
            os.pwrite(self._fd, _SLOT.pack(number, self.position) * 2, 0)
        self._turn = 0

    def advance(self, number: int, size: int) -> None:
        self.position += size
        os.pwrite(self._fd, _SLOT.pack(number, self.position), self._turn * _SLOT.size)
        self._turn ^= 1

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def retreat(self, size: int) -> None:
        """The event could not be written after all; the slot is written again with the next try."""
        self.position -= size
        self._turn ^= 1


class Piece(NamedTuple):
    """A part of the engine's output: the text of one event."""

    text: bytes
    size: int
    """The number of bytes of the output that it represents; masking changes the length of the text."""


class Recorder:
    def __init__(self, outbox: Outbox, redactor: Redactor, offsets: Offsets) -> None:
        self.outbox, self.redactor, self.offsets = outbox, redactor, offsets
        self.step = Step.FETCH
        self._has_result = False
        self.has_open_line = False
        """Whether the last line that the engine printed has no end yet."""

    def output(self, piece: Piece) -> None:
        """What the engine printed; alone among all that is recorded, it does not touch the reserve."""
        record = events.pack(Kind.LOG, Stream.OUTPUT, self.step, time.time(), piece.text)
        if not self.outbox.has_room(len(record)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.offsets.advance(self.outbox.last + 1, piece.size)
        try:
            self.outbox.append(record)
        except OSError:
            self.offsets.retreat(piece.size)
            raise
        self.has_open_line = not piece.text.endswith(b"\n")

    def say(self, text: str) -> None:
        """A line of Terracrew's own in the log."""
        line = self.redactor.mask(text[:_MAX_LINE_CHARACTERS].encode()) + b"\n"
        self.outbox.append(events.pack(Kind.LOG, Stream.SYSTEM, self.step, time.time(), line))

    def note(self, text: str) -> None:
        """A line of Terracrew's own that may come at any time; after the result the log takes no more."""
        if not self._has_result:
            self.say(text)

    def fact(self, fact: Fact) -> None:
        self._has_result = self._has_result or isinstance(fact, Result)
        self.outbox.append(events.pack_fact(facts.masked(fact, self.redactor), self.step, time.time()))

    def state(self, record: bytes) -> int:
        """Record a state. When this returns, the state is synced to the disk."""
        number = self.outbox.append(record)
        self.outbox.sync()
        return number
