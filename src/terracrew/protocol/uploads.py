"""Uploads in parts, for bodies that are too large for one request through an ordinary proxy.

A client stages a body under its hash, sends the parts that the server misses, and then makes the actual request with the
header X-Upload instead of a body. Each of these requests may be repeated, and each may be answered by another server.
"""

import msgspec

PART_BYTES = 768 << 10
"""Less than the 1 MiB that nginx accepts by default, with room for proxies that count headers too."""
HEADER = "X-Upload"


class UploadWanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    target: str
    """The purpose of the body: `states/12`, `plan` or `archive`."""
    sha256: str
    size: int


class UploadStaged(msgspec.Struct, frozen=True):
    id: str
    part_bytes: int
    """The size of every part except the last one, which may be smaller."""
    missing: list[int]
    """The indexes of the parts that the server does not have."""


def part_count(size: int) -> int:
    return -(-size // PART_BYTES)
