"""Compresses answers that are large and hold neither a token of the reader nor what the request says.

Pages are not compressed: each holds the token against forged requests beside text that others wrote or that the address names, and
whoever sees how long compressed answers are could guess the token from their lengths.
"""

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping

_LEVEL = 1
"""Logs become about a tenth of their size; a higher level takes several times as long for little more."""
_GZIP_WINDOW_BITS = 31
_THREAD_ABOVE_BYTES = 64 << 10
HEADERS = {"Content-Encoding": "gzip"}
VARY = {"Vary": "Accept-Encoding"}


def is_accepted(headers: Mapping[str, str]) -> bool:
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
