"""Verifies OpenPGP signatures of publishers whose public keys are pinned beside this file.

The file of HashiCorp's key unites two copies of it: the current one, and one from before its validity was extended. Sequoia asks
whether a key was valid when it signed, and the current copy alone does not say that for releases before the extension.
"""

from functools import cache
from importlib import resources

import pysequoia
from msgspec import Struct

from terracrew.errors import Invalid


class Publisher(Struct, frozen=True):
    title: str
    fingerprint: str
    """Of the primary key, so that a changed key file is refused."""


PUBLISHERS = {
    "hashicorp": Publisher("HashiCorp", "c874011f0ab405110d02105534365d9472d7468f"),
    "opentofu": Publisher("OpenTofu", "e3e6e43d84cb852eadb0051d0c0af313e5fd9f80"),
}


def verify(publisher: str, content: bytes, signature: bytes) -> str:
    """Return the fingerprint of the publisher's key, which made this detached signature of the content. Raises Invalid if it did not."""
    known = PUBLISHERS[publisher]

    def keys(_: list[str]) -> list[pysequoia.Cert]:
        return [key(publisher)]

    try:
        parsed = pysequoia.Sig.from_bytes(normalized(signature))
    except RuntimeError as error:
        raise Invalid(f"the file is not an OpenPGP signature ({_reason(error)})") from error
    try:
        checked = pysequoia.verify(bytes=content, store=keys, signature=parsed)
    except RuntimeError as error:
        signer = parsed.issuer_fingerprint or parsed.issuer_key_id or "an unknown key"
        raise Invalid(
            f"it was made by {signer} and is not one of {known.title}'s key {known.fingerprint} over this content"
            f" ({_reason(error)})"
        ) from error
    if [each.certificate for each in checked.valid_sigs] != [known.fingerprint]:
        raise Invalid(f"it was not made by {known.title}'s key {known.fingerprint}")
    return known.fingerprint


@cache
def key(publisher: str) -> pysequoia.Cert:
    """Return the pinned key of a publisher."""
    file = resources.files("terracrew.toolchains.signatures") / f"{publisher}.asc"
    found = pysequoia.Cert.from_bytes(file.read_bytes())
    if found.fingerprint != PUBLISHERS[publisher].fingerprint:
        raise Invalid(f"the pinned key {publisher}.asc has the fingerprint {found.fingerprint}, which is another one")
    return found


def _reason(error: RuntimeError) -> str:
    # Sequoia appends a stack trace, depending on the environment.
    return str(error).partition("\n")[0].rstrip(".")


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
