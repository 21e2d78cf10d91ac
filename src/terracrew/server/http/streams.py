"""Answers in pieces: compressed text, stored files, and streams of events.

Answers are compressed if they are large and hold neither a token of the reader nor what the request says. Pages are not compressed:
each holds the token against forged requests beside text that others wrote or that the address names, and whoever sees how long
compressed answers are could guess the token from their lengths. Of event streams, it limits how many a reader has open, and ends them
when the reader's rights change.
"""

import asyncio
import re
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping

from litestar.response import Stream

from terracrew.errors import RateLimited
from terracrew.server.db.seam import Database
from terracrew.server.objects import Objects
from terracrew.server.principals.model import Principal

MAX_STREAMS = 100
"""The most open streams of one principal; each reads the database whenever something changes."""
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_PIECE_BYTES = 1 << 20
_MEDIA_TYPE = "application/octet-stream"
_LEVEL = 1
"""Logs become about a tenth of their size; a higher level takes several times as long for little more."""
_GZIP_WINDOW_BITS = 31
_THREAD_ABOVE_BYTES = 64 << 10
GZIP_HEADERS = {"Content-Encoding": "gzip"}
VARY = {"Vary": "Accept-Encoding"}


async def begun(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Return the same pieces after the first one was read, so that what cannot be read is an error and not an empty answer."""
    first = await anext(pieces, b"")

    async def all_pieces() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return all_pieces()


def ending_event(news: object) -> bytes:
    """Return the event that says that a stream is quiet or has ended; nothing for other news.

    A browser sees no comment, so that a page can tell a quiet stream from a dead one only by an event.
    """
    return b"event: %b\ndata: {}\n\n" % (b"end" if news == "end" else b"ping") if news in ("quiet", "end") else b""


class Streams:
    def __init__(self, db: Database, clock: Callable[[], float] = time.time) -> None:
        self._db, self._clock = db, clock
        self._open: Counter[str] = Counter()
        self._changes: Counter[str] = Counter()

    def admit(self, who: Principal, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the same stream until the reader's access token or its credential ends, or their roles change; a reader who still may
        reconnects."""
        if self._open[who.id] >= MAX_STREAMS:
            raise RateLimited(f"you have {MAX_STREAMS} streams open already: close some of them first")
        ends = [at for at in (who.expires_at, who.credential_ends_at) if at is not None]
        return self._admitted(who.id, min(ends, default=None), stream)

    async def _admitted(self, reader: str, ends_at: float | None, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        self._open[reader] += 1
        before = self._changes[reader], self._changes[""]
        try:
            async for piece in stream:
                is_over = (
                    ends_at is not None and self._clock() >= ends_at
                )  # no wake-up announces that a token has expired
                if is_over or before != (self._changes[reader], self._changes[""]):
                    return
                yield piece
        finally:
            self._open[reader] -= 1
            if not self._open[reader]:
                del self._open[reader], self._changes[reader]

    async def watch_rights(self) -> None:
        """Listen for changes of rights, on this and on other servers, for as long as the server runs."""
        with self._db.listen("access", "roles") as wakeups:
            async for _, reader in wakeups:
                if not reader or reader in self._open:
                    self._changes[reader] += 1


def is_gzip_accepted(headers: Mapping[str, str]) -> bool:
    """Return whether the reader understands gzip. `gzip;q=0` says that it does not, or does not want it."""
    for each in headers.get("accept-encoding", "").lower().split(","):
        coding, _, weight = each.replace(" ", "").partition(";q=")
        if coding == "gzip":
            return not weight or bool(weight.strip("0."))
    return False


async def zipped(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_WINDOW_BITS)
    async for piece in pieces:
        is_large = len(piece) > _THREAD_ABOVE_BYTES
        packed = await asyncio.to_thread(packer.compress, piece) if is_large else packer.compress(piece)
        if packed:
            yield packed
    yield packer.flush()


async def download(
    objects: Objects, object_name: str, filename: str, size: int, sha256: str, asked: str | None, condition: str | None
) -> Stream:
    """Answer a request with these values of the headers `Range` and `If-Range`. The entity tag is the SHA-256 of the file.

    The caller has checked that the characters of `filename` need no quotes. A range that cannot be understood is ignored, as the
    standard says, and one that begins after the end of the file is refused with the status 416.
    """
    tag = f'"{sha256}"'
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": tag,
        "Content-Disposition": f'attachment; filename="{filename}"',
    }
    part = _part(asked, size) if asked and condition in (None, tag) else None
    if part is not None and part.start >= size:
        headers["Content-Range"] = f"bytes */{size}"
        return Stream(_no_pieces(), status_code=416, media_type=_MEDIA_TYPE, headers=headers)
    whole = range(size)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
    headers["Content-Length"] = str(len(whole if part is None else part))
    pieces = await begun(_pieces(objects, object_name, whole if part is None else part))
    return Stream(pieces, status_code=200 if part is None else 206, media_type=_MEDIA_TYPE, headers=headers)


def _part(asked: str, size: int) -> range | None:
    """Return the bytes that a header asks for; None for all of them, also if it asks for several parts."""
    found = _RANGE.fullmatch(asked.strip().lower())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        return range(max(size - int(found[2]), 0), size) if int(found[2]) else range(size, size)
    first, last = int(found[1]), int(found[2]) if found[2] else size - 1
    if found[2] and last < first:
        return None
    return range(first, max(min(last, size - 1) + 1, first))


async def _pieces(objects: Objects, name: str, part: range) -> AsyncIterator[bytes]:
    for start in range(part.start, part.stop, _PIECE_BYTES):
        yield await objects.get_range(name, start, min(_PIECE_BYTES, part.stop - start))


async def _no_pieces() -> AsyncIterator[bytes]:
    yield b""
