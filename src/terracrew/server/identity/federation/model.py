"""Trust policies: which tokens of another issuer stand for a service account."""

from datetime import datetime

import msgspec


class TrustPolicy(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    service_account_id: str
    issuer: str
    """The `iss` of the tokens, compared exactly. The issuer's keys are found below this address."""
    audience: str
    """The value or the pattern that `aud` must be or contain."""
    claims: dict[str, str]
    """Further claims and the values or patterns that they must have. A name that begins with `/` is a JSON pointer."""
    is_reusable: bool
    """Whether one token may be exchanged several times before it expires."""
    created_by: str
    created_at: datetime
    expires_at: datetime | None = None
    last_used_at: datetime | None = None


class TrustedAccount(msgspec.Struct, frozen=True):
    """An enabled service account as an exchange needs it."""

    id: str
    name: str
    organization_id: str
    policies: tuple[TrustPolicy, ...]


class TokenRefused(Exception):
    """A token was refused. Only the audit log has the reason; the caller gets the same answer for all of them."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
