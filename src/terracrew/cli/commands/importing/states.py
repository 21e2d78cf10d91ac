"""Reads the states that an import brings, and refuses in words those that cannot be brought."""

import hashlib

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol.events import MAX_STATE_BYTES

FORMAT_VERSION = 4
"""The format of the states that OpenTofu and Terraform 0.12 and newer write."""


class StateHead(msgspec.Struct, frozen=True):
    """What is known of a state without its resources."""

    serial: int
    lineage: str


class _StateFile(msgspec.Struct):
    version: int = 0
    serial: int = 0
    lineage: str = ""
    encrypted_data: msgspec.Raw = msgspec.Raw(b"")


_file = msgspec.json.Decoder(_StateFile)


def read(content: bytes, what: str) -> StateHead:
    """Return what a state says of itself. Raises Invalid, with `what` it is, if it cannot be brought."""
    if not content.strip():
        raise Invalid(f"{what} is empty")
    if len(content) > MAX_STATE_BYTES:
        raise Invalid(f"{what} has {len(content):,} bytes, and a state has at most {MAX_STATE_BYTES:,}")
    try:
        found = _file.decode(content)
    except (ValueError, RecursionError):
        raise Invalid(f"{what} is not a state of OpenTofu or Terraform") from None
    if bytes(found.encrypted_data):
        raise Invalid(
            f"{what} is encrypted by OpenTofu: print it with `tofu state pull` where its key is, and bring it with "
            "`terracrew state import`"
        )
    if found.version != FORMAT_VERSION:
        raise Invalid(
            f"{what} has format {found.version}, and engines of today read format {FORMAT_VERSION}: `tofu state pull` or "
            "`terraform state pull` prints it in that format"
        )
    if not found.lineage or found.serial < 0:
        raise Invalid(f"{what} has no lineage, so nothing says which states continue it")
    return StateHead(found.serial, found.lineage)


def check(content: bytes, what: str, *, serial: int, md5: str = "", size: int | None = None) -> StateHead:
    """Return what a state that was downloaded says of itself. Raises Invalid if it is not the one that was announced."""
    if size is not None and len(content) != size:
        raise Invalid(f"{what} arrived with {len(content):,} bytes instead of {size:,}: try again")
    if md5 and hashlib.md5(content, usedforsecurity=False).hexdigest() != md5.lower():
        raise Invalid(f"{what} arrived damaged: its MD5 is not the one that was announced. Try again")
    head = read(content, what)
    if head.serial != serial:
        raise Invalid(
            f"{what} has serial {head.serial}, and {serial} was announced: somebody has changed it meanwhile. Try again"
        )
    return head
