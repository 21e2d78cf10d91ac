"""What the parts of identity share in a running server, made once when it starts."""

from dataclasses import dataclass
from typing import Any

from litestar.connection import ASGIConnection

from terracrew.server.addresses import UNKNOWN, is_loopback
from terracrew.server.audit.failures import Failures
from terracrew.server.db.seam import Database
from terracrew.server.identity.keys.signing import SigningKeys
from terracrew.server.identity.limits import Limits
from terracrew.server.identity.oidc.tokens import AccessTokens
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.transport.forwarded import is_forwarded


@dataclass(frozen=True)
class Identity:
    db: Database
    url: str
    """How browsers and machines reach this server; also who its tokens are from."""
    tokens: AccessTokens
    limits: Limits
    keys: Keyring
    failures: Failures


async def open_identity(db: Database, keys: Keyring, url: str) -> Identity:
    """Load the signing keys (the first server makes them) and start with a clean slate of failures."""
    signing, limits, failures = SigningKeys(db, keys), Limits(), Failures(db)
    await signing.load()
    return Identity(
        db, url.rstrip("/"), AccessTokens(db, signing, limits, failures, url.rstrip("/")), limits, keys, failures
    )


def identity_of(connection: ASGIConnection[Any, Any, Any, Any]) -> Identity:
    return connection.app.state.server.identity


def address_of(connection: ASGIConnection[Any, Any, Any, Any]) -> str:
    """Return the client's address. Behind a trusted proxy, `transport.front` has put the address of the proxy's client here."""
    return connection.client.host if connection.client is not None else UNKNOWN


def is_on_this_machine(connection: ASGIConnection[Any, Any, Any, Any]) -> bool:
    """Tell whether a request was made on this machine. What a proxy on this machine passes on comes from elsewhere."""
    return is_loopback(address_of(connection)) and not is_forwarded(connection.scope["headers"])
