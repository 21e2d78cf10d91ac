"""What runners and executors exchange with the server by HTTP: uploads in parts, and how an attempt ended.

A body that is too large for one request through an ordinary proxy is uploaded in parts.
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


OUTCOME_PATH = "/runnerhub/attempts/{job_id}/{attempt}/outcome"


class AttemptOutcome(msgspec.Struct, frozen=True):
    """A value of `outcome` that only newer servers know means that the job did not end with this attempt."""

    outcome: str | None
    """`succeeded`, `failed`, `canceled`, or `waiting` (for the approval of its plan); `handed_back`, `lost` or `gone` if its job is
    queued again or in doubt; None if it has not ended."""
    job_number: int
    reason: str = ""
