"""How an attempt has ended, as the server tells the process that has the credential of the attempt."""

import msgspec

PATH = "/runnerhub/attempts/{job_id}/{attempt}/outcome"


class AttemptOutcome(msgspec.Struct, frozen=True):
    """A value of `outcome` that only newer servers know means that the job did not end with this attempt."""

    outcome: str | None
    """`succeeded`, `failed`, `canceled`, or `waiting` (for the approval of its plan); `handed_back`, `lost` or `gone` if its job is
    queued again or in doubt; None if it has not ended."""
    job_number: int
    reason: str = ""
