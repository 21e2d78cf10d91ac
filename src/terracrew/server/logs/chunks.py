"""Log chunks: batches of log records as they arrived, compressed. They are found by event number or by line."""

import re
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import zstandard

from terracrew.api.job_views import LogEvent
from terracrew.protocol.events import Kind, Record
from terracrew.protocol.spec import STEP_OF_NUMBER

_HEADER = struct.Struct(">QIBBHd")
"""The header of a stored record: its number, followed by the fields of its header on the wire."""
_SIZE = struct.Struct(">8xI")


class EventHeader(NamedTuple):
    """What is stored of an event beside its text."""

    number: int
    size: int
    kind: int
    stream: int
    step: int
    time: float


class Only(msgspec.Struct, frozen=True):
    """Which events of a log a reader wants."""

    since: float | None = None
    steps: frozenset[int] = frozenset()
    """The numbers of steps; empty for all."""

    @property
    def is_all(self) -> bool:
        return self.since is None and not self.steps

    def has(self, event: EventHeader) -> bool:
        return (self.since is None or event.time >= self.since) and (not self.steps or event.step in self.steps)

    def has_between(self, time: float) -> bool:
        """Return whether a line between two attempts is wanted, which belongs to no step."""
        return not self.steps and (self.since is None or time >= self.since)


ALL = Only()


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
    for header, payload in headers(body(data)):
        yield header.number, Record(header.kind, header.stream, header.step, header.time, payload)


def events(data: bytes, after: int = 0, attempt: int = 0, only: Only = ALL) -> Iterator[LogEvent]:
    """Yield the events with a higher number than `after`, as events of this attempt."""
    for header, payload in headers(body(data)):
        if header.number > after and (only is ALL or only.has(header)):
            step = STEP_OF_NUMBER[header.step].value
            text = payload.decode("utf-8", "replace")
            yield LogEvent(header.number, header.time, step, header.stream, text, attempt)


def headers(body: bytes) -> Iterator[tuple[EventHeader, bytes]]:
    """Yield what is stored of each event of a decompressed chunk."""
    offset = 0
    while offset < len(body):
        header = EventHeader(*_HEADER.unpack_from(body, offset))
        offset += _HEADER.size + header.size
        yield header, body[offset - header.size : offset]


def first_time(data: bytes) -> float:
    """Return the time of the first event, without decompressing the others."""
    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        return first_time_of_body(reader.read(_HEADER.size))


def first_time_of_body(body: bytes) -> float:
    return EventHeader(*_HEADER.unpack_from(body, 0)).time


def text(data: bytes, only: Only = ALL) -> bytes:
    """Return the text exactly as it was printed."""
    if only is ALL:
        return text_of_body(body(data))
    return b"".join([payload for header, payload in headers(body(data)) if only.has(header)])


def text_of_body(body: bytes) -> bytes:
    parts: list[bytes] = []
    offset, end = 0, len(body)
    while offset < end:
        start = offset + _HEADER.size
        offset = start + _SIZE.unpack_from(body, offset)[0]
        parts.append(body[start:offset])
    return b"".join(parts)


MASK = b"***"
# One search is faster than a search for each prefix, and it nearly always finds nothing. The character before the prefix is
# checked last (`fetch_…` is not a secret), so that the search can jump from one `tc` to the next.
_SECRET = re.compile(rb"tc[uswohjldtra]_(?<![A-Za-z0-9]tc[uswohjldtra]_)[A-Za-z0-9_-]{40,}")


def has_secret(text: bytes) -> bool:
    return _SECRET.search(text) is not None


def mask(text: bytes) -> bytes:
    return _SECRET.sub(MASK, text)
