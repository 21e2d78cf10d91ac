"""A once token as it is stored and shown, and what its holder is told when it has ended."""

from terracrew.api.runners import OnceTokenStatus

MAX_WAITING_TOKENS = 1000
"""How many tokens of one runner may wait for a job at once."""

ENDED: dict[OnceTokenStatus, str] = {
    "running": "this token is for one job, and another instance has claimed it",
    "used": "this token was for one job, which has ended",
    "expired": "this token was for one job, and has expired before there was one",
    "revoked": "this token was for one job, and was revoked",
}
"""What the holder of a token is told that is not valid, or not here."""
