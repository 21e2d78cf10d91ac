"""Writes an attempt's events: the engine's output, Terracrew's own lines, and facts."""

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
    """Records how much of the output has been turned into events, in two slots that are written alternately before each event.

    After a crash of the process, reading continues at the slot with the highest number that is really in the outbox. So no
    line is lost or repeated, regardless of which write was the last. A crash of the machine may leave slots that are older or
    newer than the outbox. They are therefore not synced with each event, but checked when they are read.
    """

    def __init__(self, path: Path, outbox: Outbox) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        slots = [_SLOT.unpack_from(data) for at in (0, 1) if len(data := os.pread(self._fd, 16, at * 16)) == _SLOT.size]
        number, self.position = max((slot for slot in slots if slot[0] <= outbox.last), default=(0, 0))
        self.is_known = outbox.last_output <= number and not outbox.has_lost_events
        """False if the outbox has output that no slot accounts for, so that reading from this position would repeat lines."""
        if slots:  # a slot for an event that was never written must not become valid later, when that number is used
            os.pwrite(self._fd, _SLOT.pack(number, self.position) * 2, 0)
        self._turn = 0

    def advance(self, number: int, size: int) -> None:
        self.position += size
        os.pwrite(self._fd, _SLOT.pack(number, self.position), self._turn * _SLOT.size)
        self._turn ^= 1

    def sync(self) -> None:
        os.fdatasync(self._fd)

    def retreat(self, size: int) -> None:
        """Undo `advance`, because the event could not be written. The next try writes the slot again."""
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
        """Record output of the engine. Only output is refused when it would use the reserve of disk space."""
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
        """Record a line of Terracrew's own in the log."""
        line = self.redactor.mask(text[:_MAX_LINE_CHARACTERS].encode()) + b"\n"
        self.outbox.append(events.pack(Kind.LOG, Stream.SYSTEM, self.step, time.time(), line))

    def note(self, text: str) -> None:
        """Record a line of Terracrew's own at any time. After the result it is dropped, because nothing may follow the result."""
        if not self._has_result:
            self.say(text)

    def fact(self, fact: Fact) -> None:
        self._has_result = self._has_result or isinstance(fact, Result)
        record = events.pack_fact(facts.masked(fact, self.redactor), self.step, time.time())
        self.outbox.append(record)

    def state(self, record: bytes) -> int:
        """Record a state. When this returns, the state is synced to the disk."""
        number = self.outbox.append(record)
        self.outbox.sync()
        return number
