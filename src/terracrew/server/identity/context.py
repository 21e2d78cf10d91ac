"""The objects that the packages of identity share in a running server. They are made once, when it starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from terracrew.server.audit.failures import Failures
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.identity.access import credential_store
from terracrew.server.identity.federation import rules
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.issuers import Fetches, Issuers
from terracrew.server.identity.federation.service import Replays, Trust
from terracrew.server.identity.keys.signing import SigningKeys
from terracrew.server.identity.limits import Limits, LoginGuard
from terracrew.server.identity.oidc.federated import FederatedTokens
from terracrew.server.identity.oidc.issuer import Issuer
from terracrew.server.identity.oidc.tokens import WORKER_TOKEN_SECONDS, AccessTokens
from terracrew.server.identity.people import store
from terracrew.server.identity.sso.exchanges import Exchanges
from terracrew.server.identity.sso.service import SingleSignOn
from terracrew.server.principals.model import AttemptScope
from terracrew.server.secrets.keyring import Keyring


class BearerReads:
    """Reads whose token a connection shows, for many connections with one statement: every request and every executor asks it.

    Each of them takes the digest of a token.
    """

    def __init__(self, db: Database) -> None:
        self.user = db.grouped_reads(_users)
        self.attempt = db.grouped_reads(_attempts)


async def _users(tx: Tx, digests: list[str]) -> Sequence[tuple[Row, float] | None]:
    """Return the user of each API token that is valid, with the time of the read."""
    found = await store.token_users(tx, digests)
    return [(found[each], tx.now) if each in found else None for each in digests]


async def _attempts(tx: Tx, digests: list[str]) -> Sequence[AttemptScope | None]:
    """Return the attempt of each hub credential."""
    found = await credential_store.attempts_by_hub_credentials(tx, digests)
    return [found.get(each) for each in digests]


@dataclass(frozen=True)
class Identity(LoginGuard):
    url: str
    """The address by which browsers and machines reach this server. It is also the issuer of its access tokens."""
    issuer: Issuer
    """The issuer of its tokens for clouds."""
    tokens: AccessTokens
    federation: FederatedTokens
    bearers: BearerReads
    sso: SingleSignOn


async def open_identity(
    db: Database,
    keys: Keyring,
    url: str,
    private_issuers: Iterable[str] = (),
    fetcher: Fetches | None = None,
    worker_token_seconds: float = WORKER_TOKEN_SECONDS,
    issuer: str = "",
) -> Identity:
    """Load the signing keys, which the first server makes, and start with no failures counted.

    `private_issuers` are the issuers that may have private addresses. Tests give a fetcher that counts.
    """
    signing, limits, failures = SigningKeys(db, keys), Limits(), Failures(db)
    await signing.load()
    tokens = AccessTokens(db, signing, limits, failures, url.rstrip("/"), worker_token_seconds)
    own = issuer.rstrip("/") or url.rstrip("/")
    trust = Trust(url.rstrip("/"), own, frozenset(rules.origin(each) for each in private_issuers))
    own_fetcher = Fetcher(trust.allowed_origins)
    issuers = Issuers(fetcher or own_fetcher)
    federation = FederatedTokens(db, tokens, issuers, Replays(db), trust)
    clouds = Issuer(own, url.rstrip("/"), fetcher)
    guard = LoginGuard(db, limits, keys, failures)
    sso = SingleSignOn(guard, Exchanges(own_fetcher, issuers), trust)
    return Identity(db, limits, keys, failures, url.rstrip("/"), clouds, tokens, federation, BearerReads(db), sso)
