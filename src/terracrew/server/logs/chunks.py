"""Log chunks: batches of log records as they arrived, compressed. They are found by event number or by line."""

import re
import struct
from collections.abc import Iterator, Sequence

import msgspec
import zstandard

from terracrew.api.job_views import LogEvent
from terracrew.protocol.events import Kind, Record

_HEADER = struct.Struct(">QIBBHd")
"""The header of a stored record: its number, followed by the fields of its header on the wire."""


class Chunk(msgspec.Struct, frozen=True):
    """A run of log records. Numbers need not be dense: an event that is not a log line leaves a gap behind it."""

    first: int
    last: int
    lines: int
    size: int
    data: bytes


def pack(records: Sequence[tuple[int, Record]]) -> Chunk | None:
    """Compress the log records among these numbered ones, their secrets masked; None if there is none."""
    logs = [(number, record) for number, record in records if record.kind == Kind.LOG]
    if not logs:
        return None
    joined, lines = _joined(logs)
    if has_secret(joined):
        logs = [(number, record._replace(payload=mask(record.payload))) for number, record in logs]
        joined, lines = _joined(logs)
    # A compressor is made each time: one object must not be used by two threads, and making it costs microseconds.
    return Chunk(logs[0][0], logs[-1][0], lines, len(joined), zstandard.ZstdCompressor(level=1).compress(joined))


def stored_size(record: Record) -> int:
    """Return how many bytes a record has in the body of a chunk."""
    return _HEADER.size + len(record.payload)


def _joined(logs: Sequence[tuple[int, Record]]) -> tuple[bytes, int]:
    """Return the body of a chunk, and how many line feeds are in it."""
    parts: list[bytes] = []
    lines = 0
    for number, (kind, stream, step, time, payload) in logs:
        parts.append(_HEADER.pack(number, len(payload), kind, stream, step, time))
        parts.append(payload)
        lines += payload.count(b"\n")
    return b"".join(parts), lines


def body(data: bytes) -> bytes:
    """Return the decompressed records of a chunk. The bodies of consecutive chunks can be joined to one body."""
    return zstandard.ZstdDecompressor().decompress(data)


def records(data: bytes) -> Iterator[tuple[int, Record]]:
    unpacked = body(data)
    offset = 0
    while offset < len(unpacked):
        number, size, kind, stream, step, time = _HEADER.unpack_from(unpacked, offset)
        start = offset + _HEADER.size
        offset = start + size
        yield number, Record(kind, stream, step, time, unpacked[start:offset])


def events(data: bytes, after: int = 0, attempt: int = 0) -> Iterator[LogEvent]:
    """Yield the events with a higher number than `after`, as events of this attempt."""
    for number, record in records(data):
        if number > after:
            text = record.payload.decode("utf-8", "replace")
            yield LogEvent(number, record.time, record.step_name.value, record.stream, text, attempt)


def text(data: bytes) -> bytes:
    """Return the text exactly as it was printed."""
    return b"".join(record.payload for _, record in records(data))


MASK = b"***"
# One search is faster than a search for each prefix, and it nearly always finds nothing. The character before the prefix is
# checked last (`fetch_…` is not a secret), so that the search can jump from one `tc` to the next.
_SECRET = re.compile(rb"tc[uswohjldtra]_(?<![A-Za-z0-9]tc[uswohjldtra]_)[A-Za-z0-9_-]{40,}")


def has_secret(text: bytes) -> bool:
    return _SECRET.search(text) is not None


def mask(text: bytes) -> bytes:
    return _SECRET.sub(MASK, text)
