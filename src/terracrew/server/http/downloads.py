"""Answers with a stored file whose hash is known: whole, or a part of it, so that a fetch that broke off can be continued."""

import re
from collections.abc import AsyncIterator

from litestar.response import Stream

from terracrew.server.http.streams import begun
from terracrew.server.objects import Objects

_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_PIECE_BYTES = 1 << 20
_MEDIA_TYPE = "application/octet-stream"


async def answer(
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
