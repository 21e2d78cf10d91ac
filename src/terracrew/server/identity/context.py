"""The objects that the packages of identity share in a running server. They are made once, when it starts."""

from dataclasses import dataclass

from terracrew.server.audit.failures import Failures
from terracrew.server.db.seam import Database
from terracrew.server.identity.guard import LoginGuard
from terracrew.server.identity.keys.signing import SigningKeys
from terracrew.server.identity.limits import Limits
from terracrew.server.identity.oidc.tokens import AccessTokens
from terracrew.server.secrets.keyring import Keyring


@dataclass(frozen=True)
class Identity(LoginGuard):
    url: str
    """The address by which browsers and machines reach this server. It is also the issuer of its tokens."""
    tokens: AccessTokens


async def open_identity(db: Database, keys: Keyring, url: str) -> Identity:
    """Load the signing keys, which the first server makes, and start with no failures counted."""
    signing, limits, failures = SigningKeys(db, keys), Limits(), Failures(db)
    await signing.load()
    tokens = AccessTokens(db, signing, limits, failures, url.rstrip("/"))
    return Identity(db, limits, keys, failures, url.rstrip("/"), tokens)
