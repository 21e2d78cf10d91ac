"""The binary frame of the hub: a small JSON header and a batch of event records, laid out as in the outbox."""

import struct

import msgspec

from terracrew.protocol.messages import Number

_SIZE = struct.Struct(">H")


class BatchHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    first: Number
    count: Number


_decode = msgspec.json.Decoder(BatchHeader).decode
_encode = msgspec.json.Encoder().encode


def pack(first: int, count: int, body: bytes) -> bytes:
    header = _encode(BatchHeader(first, count))
    return b"".join((_SIZE.pack(len(header)), header, body))


def unpack(frame: bytes) -> tuple[BatchHeader, bytes]:
    """Split a frame. Anything else raises ValueError (msgspec's own errors are ValueErrors)."""
    if len(frame) < _SIZE.size:
        raise ValueError("a frame of events is too short")
    (size,) = _SIZE.unpack_from(frame)
    return _decode(frame[2 : 2 + size]), frame[2 + size :]
