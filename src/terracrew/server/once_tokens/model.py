"""A once token as it is stored and shown, and what its holder is told when it has ended."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

MIN_SECONDS, DEFAULT_SECONDS, MAX_SECONDS = 60, 3600, 24 * 3600
"""How long a token may wait for its job."""
MAX_WAITING_TOKENS = 1000
"""How many tokens of one runner may wait for a job at once."""

OnceTokenStatus = Literal["waiting", "running", "used", "expired", "revoked"]
ENDED: dict[OnceTokenStatus, str] = {
    "running": "this token is for one job, and another instance has claimed it",
    "used": "this token was for one job, which has ended",
    "expired": "this token was for one job, and has expired before there was one",
    "revoked": "this token was for one job, and was revoked",
}
"""What the holder of a token is told that is not valid, or not here."""


class OnceToken(msgspec.Struct, frozen=True):
    """A credential of a runner that is valid for one job. The secret itself is shown only when it is made."""

    id: str
    runner_id: str
    created_by: str
    """The name of the person or service account that made it."""
    created_at: datetime
    expires_at: datetime
    """Until when it may claim a job. After that, it may only deliver what belongs to the job."""
    claimed_at: datetime | None = None
    job_id: str | None = None
    """The job that it has claimed, with the number of the attempt."""
    attempt: int | None = None
    instance_id: str | None = None
    """The instance that has claimed the job. No other one may use the token since."""
    revoked_at: datetime | None = None


class OnceTokenView(OnceToken, frozen=True, kw_only=True):
    """A once token as people see it."""

    status: OnceTokenStatus
    """`waiting` for a job, `running` until its attempt has ended, and then `used`; or `expired` without a job, or `revoked`."""
    job_number: int | None
    """The number of the job that it has claimed."""


class NewOnceToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    seconds: Annotated[int, msgspec.Meta(ge=MIN_SECONDS, le=MAX_SECONDS)] = DEFAULT_SECONDS
    """How long it may wait for its job. It ends sooner if the credential of this request does."""


class MadeOnceToken(msgspec.Struct, frozen=True):
    """What a machine needs to run one job. The token is shown this once."""

    id: str
    runner_path: str
    token: str
    expires_at: datetime
    environment: dict[str, str]
    command: str

    def __repr__(self) -> str:
        return f"MadeOnceToken({self.id!r})"
