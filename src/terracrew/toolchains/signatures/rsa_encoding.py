"""Corrects the length of the number in an RSA signature, which Go's OpenPGP library writes wrongly.

OpenPGP requires the exact count of bits before a number. The library states that of the key instead, which is larger for half of all
signatures. GnuPG and Go accept those; Sequoia does not. HashiCorp signs with that library. The number itself stays the same,
so the correction cannot make a signature valid that is not.
"""

_SIGNATURE_TAG_CODE = 2
_FORMAT_VERSION = 4
_RSA_ALGORITHMS = (1, 3)


def normalized(signature: bytes) -> bytes:
    """Return the signature with the exact length of its number; anything but one binary RSA signature is returned as it is."""
    body = _body(signature)
    if body is None or len(body) < 6 or body[0] != _FORMAT_VERSION or body[2] not in _RSA_ALGORITHMS:
        return signature
    position = 4
    for _ in ("hashed subpackets", "other subpackets"):
        position += 2 + int.from_bytes(body[position : position + 2], "big")
    position += 2  # the first two bytes of the hash
    stated_bits, digits = int.from_bytes(body[position : position + 2], "big"), body[position + 2 :]
    number = int.from_bytes(digits, "big")
    if not number or len(digits) != (stated_bits + 7) // 8 or number.bit_length() == stated_bits:
        return signature
    exact = number.bit_length().to_bytes(2, "big") + number.to_bytes((number.bit_length() + 7) // 8, "big")
    fixed = body[:position] + exact
    return bytes([0xC0 | _SIGNATURE_TAG_CODE, 0xFF]) + len(fixed).to_bytes(4, "big") + fixed


def _body(packet: bytes) -> bytes | None:
    """Return the body of the packet if it is a signature and nothing follows it."""
    if len(packet) < 3:
        return None
    head, first = packet[0], packet[1]
    if head & 0xC0 == 0xC0 and head & 0x3F == _SIGNATURE_TAG_CODE:  # the current format of a packet
        if first < 192:
            start, length = 2, first
        elif first < 224:
            start, length = 3, ((first - 192) << 8) + packet[2] + 192
        elif first == 255:
            start, length = 6, int.from_bytes(packet[2:6], "big")
        else:
            return None
    elif head & 0xC0 == 0x80 and (head >> 2) & 0xF == _SIGNATURE_TAG_CODE and head & 3 < 3:  # the old format
        width = 1 << (head & 3)
        start, length = 1 + width, int.from_bytes(packet[1 : 1 + width], "big")
    else:
        return None
    return packet[start:] if len(packet) == start + length else None
