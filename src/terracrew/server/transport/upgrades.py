"""Recognizes the WebSocket handshake that ordinary clients send, so that its headers are not written out and parsed a second time.

Uvicorn gives the request as bytes to `websockets`, which parses it in Python. That takes a third of what a connection of an
executor costs. Every other handshake still goes that way, and is refused there if it is wrong.
"""

import base64
import hashlib
import re
from collections.abc import Sequence

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
"""What RFC 6455 appends to the key of a handshake before it is hashed."""
_KEY = re.compile(rb"[A-Za-z0-9+/]{21}[AQgw]==")
"""16 bytes in base64."""
_PLAIN_PATH = re.compile(rb"/[A-Za-z0-9/_-]*")
_ONCE = {b"connection": b"upgrade", b"upgrade": b"websocket", b"sec-websocket-version": b"13"}
_UNUSUAL = frozenset({b"transfer-encoding", b"content-length", b"expect", b"origin", b"sec-websocket-protocol"})


def answer_to(method: str, version: str, url: bytes, headers: Sequence[tuple[bytes, bytes]]) -> bytes | None:
    """Return the response that accepts a handshake, or None if it is not an ordinary one. Names of headers are in lower case."""
    if method != "GET" or version != "1.1" or not _PLAIN_PATH.fullmatch(url):
        return None
    seen: set[bytes] = set()
    key: bytes | None = None
    for name, value in headers:
        if name in _UNUSUAL:
            return None
        if name == b"sec-websocket-key":
            if key is not None or not _KEY.fullmatch(value):
                return None
            key = value
        elif (expected := _ONCE.get(name)) is not None:
            if name in seen or value.lower() != expected:
                return None
            seen.add(name)
    if key is None or len(seen) < len(_ONCE):
        return None
    accept = base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest())
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: "
        + accept
        + b"\r\n\r\n"
    )
