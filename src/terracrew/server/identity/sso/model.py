"""What single sign-on stores and passes on: providers, identities, and a login that is under way."""

from typing import Any

import msgspec

from terracrew.api.sso import IdentityProvider


class StoredProvider(IdentityProvider, frozen=True, kw_only=True):
    sealed: bytes | None = None
    rules_version: int = 0


class LinkedPerson(msgspec.Struct, frozen=True):
    """A person of a provider, who is a user here. Only the provider and its `sub` say who it is."""

    id: str
    provider_id: str
    subject: str
    user_id: str
    claims: dict[str, Any]
    confirmed_at: float
    evaluated_version: int
    created_by: str
    created_at: float


class ProviderSession(msgspec.Struct, frozen=True):
    """A session that began with a login at a provider."""

    session_id: str
    identity_id: str
    provider_id: str
    sid: str
    sealed: bytes | None
    confirmed_at: float
    due_at: float | None
    claimed_until: float
    failure: str


class ProviderTokens(msgspec.Struct, frozen=True):
    """What a provider's token endpoint answers."""

    id_token: str = ""
    access_token: str = ""
    refresh_token: str = ""
    refresh_expires_in: float | None = None

    def __repr__(self) -> str:
        return "ProviderTokens(…)"


class Verified(msgspec.Struct, frozen=True):
    """Who has logged in at a provider, by a verified token."""

    subject: str
    claims: dict[str, Any]
    sid: str
    refresh_token: str
    refresh_expires_in: float | None

    def __repr__(self) -> str:
        return f"Verified({self.subject})"


class SignInFailed(Exception):
    """A login that was not accepted. The person and the administrators of the organization read the reason."""

    def __init__(self, reason: str, *, is_grant_gone: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_grant_gone = is_grant_gone
        """Whether the provider says that the code or the refresh token is not valid any more."""
