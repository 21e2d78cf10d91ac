"""People, and what they log in with: sessions and API tokens."""

from datetime import datetime

import msgspec


class Session(msgspec.Struct, frozen=True):
    """A login in a browser. `token` goes into the cookie and nowhere else."""

    id: str
    user_id: str
    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Session({self.id})"
