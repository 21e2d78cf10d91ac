"""People, and what they log in with: sessions and API tokens."""

from datetime import datetime

import msgspec


class User(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    name: str
    is_system_admin: bool
    is_disabled: bool
    created_at: datetime
    last_login_at: datetime | None = None


class UserListed(User, frozen=True):
    """A user as a list shows them."""

    has_password: bool = False
    """False for somebody who was invited or reset and has not set a password yet."""
    is_invited: bool = False
    """Whether there is a link with which the user can log in and that has not expired."""


class Session(msgspec.Struct, frozen=True):
    """A login in a browser. `token` goes into the cookie and nowhere else."""

    id: str
    user_id: str
    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Session({self.id})"


class OpenSession(msgspec.Struct, frozen=True):
    """A session as people see it in a list."""

    id: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str | None
    """The address that it was started from."""


class ApiToken(msgspec.Struct, frozen=True):
    id: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    is_local: bool = False
    """Whether the server has left it in its data directory, for the command line on its own machine."""
