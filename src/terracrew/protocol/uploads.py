"""Uploading in parts: what does not fit into one request that an ordinary proxy accepts is staged first, then used.

A client stages a body under its hash, sends the parts that the server misses, and then makes the actual request with the
header X-Upload instead of a body. Every one of these requests may be repeated, and another server may answer the next one.
"""

import msgspec

PART_BYTES = 768 << 10
"""Less than the 1 MiB that nginx accepts by default, with room for proxies that count headers too."""
HEADER = "X-Upload"


class UploadWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: str
    """What the body is for: `states/12`, `plan` or `archive`."""
    sha256: str
    size: int


class UploadStaged(msgspec.Struct, frozen=True):
    id: str
    part_bytes: int
    """Every part has this many bytes, except that the last one may have less."""
    missing: list[int]
    """The indexes of the parts that the server does not have."""


def part_count(size: int) -> int:
    return -(-size // PART_BYTES)
