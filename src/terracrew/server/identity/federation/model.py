"""Trust policies: which tokens of another issuer stand for a service account."""

import msgspec

from terracrew.api.access import TrustPolicy


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
