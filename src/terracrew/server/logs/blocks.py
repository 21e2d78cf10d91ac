"""A log in an object: consecutive blocks of compressed log records, and the index that finds a range.

A block has the same content as a chunk, so what reads a chunk reads a block. It is larger, because chunks of a quiet job
hold one line each, and small enough that reading one line costs one small ranged read.
"""

from collections.abc import Iterable
from typing import IO

import msgspec
import zstandard

from terracrew.server.logs import chunks

BLOCK_BYTES = 256 << 10
"""A block is closed when its text and record headers reach this size. A chunk is never divided."""
_COMPRESSION_LEVEL = 3


class Row(msgspec.Struct, frozen=True):
    """A chunk as it is stored in its row."""

    first: int
    last: int
    first_line: int
    lines: int
    data: bytes


class Block(msgspec.Struct, frozen=True, array_like=True):
    """One entry of the index: which events and lines a block holds, and where it is in the object."""

    first: int
    last: int
    first_line: int
    lines: int
    size: int
    offset: int
    length: int
    time: float = 0.0
    """The time of its first event; 0 in the indexes of servers that did not record it."""


class Writer:
    """Joins chunks to blocks and writes them to a file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._open: list[Row] = []
        self._bodies: list[bytes] = []
        self._open_bytes = 0
        self.blocks: list[Block] = []
        self.stored_bytes = 0

    @property
    def size(self) -> int:
        """The number of bytes of records in finished blocks."""
        return sum(block.size for block in self.blocks)

    def add(self, rows: Iterable[Row]) -> None:
        for row in rows:
            body = chunks.body(row.data)
            self._open.append(row)
            self._bodies.append(body)
            self._open_bytes += len(body)
            if self._open_bytes >= BLOCK_BYTES:
                self._close_block()

    def finish(self) -> list[Block]:
        if self._open:
            self._close_block()
        self._file.flush()
        return self.blocks

    def _close_block(self) -> None:
        data = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(b"".join(self._bodies))
        first, last = self._open[0], self._open[-1]
        lines = sum(row.lines for row in self._open)
        self.blocks.append(
            Block(
                first.first,
                last.last,
                first.first_line,
                lines,
                self._open_bytes,
                self.stored_bytes,
                len(data),
                chunks.first_time_of_body(self._bodies[0]),
            )
        )
        self._file.write(data)
        self.stored_bytes += len(data)
        self._open, self._bodies, self._open_bytes = [], [], 0


def encode_index(blocks: list[Block]) -> bytes:
    return zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(msgspec.json.encode(blocks))


def decode_index(data: bytes) -> list[Block]:
    return msgspec.json.decode(zstandard.ZstdDecompressor().decompress(data), type=list[Block])
