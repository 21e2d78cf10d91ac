"""The parts of a log in the object store, and the line that replaces a removed log."""

from datetime import UTC, datetime

import msgspec

from terracrew.protocol.events import Kind, Record, Stream
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
    packed = chunks.pack([(event, Record(Kind.LOG, Stream.SYSTEM, 0, time, text.encode()))])
    assert packed is not None
    return packed
