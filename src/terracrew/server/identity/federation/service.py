"""Manages the trust policies of service accounts. Whoever may add a secret to an account may let others act as it, too."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from terracrew import ids
from terracrew.api.access import NewPolicy, ServiceAccount, TrustPolicy
from terracrew.errors import Conflict
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import roles
from terracrew.server.identity.access import service as access
from terracrew.server.identity.access import store as holder_store
from terracrew.server.identity.federation import rules, store
from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.identity.federation.store import ExchangedToken
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal


class Trust(msgspec.Struct, frozen=True):
    """What the check of an issuer depends on."""

    url: str
    """The address of this server, which is also the issuer of its own tokens."""
    issuer: str = ""
    """The issuer of its tokens for clouds, if that is another address."""
    allowed_origins: frozenset[str] = frozenset()
    """The schemes, hosts and ports that may be fetched without TLS and at private addresses."""

    @property
    def own_issuers(self) -> frozenset[str]:
        """The issuers of this server's own tokens, which no policy may trust."""
        return frozenset({self.url, self.issuer or self.url})


async def add(db: Database, who: Principal, reference: str, wanted: NewPolicy, trust: Trust) -> TrustPolicy:
    issuer = rules.checked_issuer(wanted.issuer, trust.own_issuers, trust.allowed_origins)
    audience, claims = rules.checked_bounds(issuer, wanted.audience, wanted.claims, trust.url)

    async def work(tx: Tx) -> TrustPolicy:
        account = await access.find(tx, who, reference, Verb.ACCESS_WRITE)
        await access.require_login_for_provisioner(tx, who, account)
        place = authorize.group(account.organization_id, account.group)
        ends_at = await roles.expiry(tx, who, place, wanted.expires_in_days)
        taken = await store.slots(tx, account.id)
        free = next((slot for slot in range(1, rules.MAX_POLICIES + 1) if slot not in taken), None)
        if free is None:
            raise Conflict(f"{account.name} has {rules.MAX_POLICIES} trust policies: remove one that is no longer used")
        policy = TrustPolicy(
            ids.new("trp"),
            account.organization_id,
            account.id,
            issuer,
            audience,
            claims,
            wanted.is_reusable,
            who.id,
            tx.moment,
            None if ends_at is None else datetime.fromtimestamp(ends_at, UTC),
        )
        await store.insert(tx, policy, free)
        await holder_store.add(tx, account.id, who.id, account.organization_id)  # their issuer may let them act as it
        await _record(tx, who, account, "service_account.add_trust", policy)
        tx.wake("access", account.id)
        return policy

    try:
        return await db.write(work)
    except Conflict as error:
        if error.details.get("constraint") != "trust_policies_slot":
            raise
        raise Conflict("another trust policy was added to this account at the same moment: try again") from None


async def policies(tx: Tx, who: Principal, reference: str) -> list[TrustPolicy]:
    account = await access.find(tx, who, reference)
    return await store.policies(tx, account.id)


async def remove(tx: Tx, who: Principal, reference: str, policy_id: str) -> None:
    """Remove a policy. The access tokens that were issued by it end, and so do the connections that were opened with them."""
    account = await access.find(tx, who, reference, Verb.ACCESS_WRITE)
    found = next((each for each in await store.policies(tx, account.id) if each.id == policy_id), None)
    await store.delete(tx, account.id, policy_id)
    if found is not None:
        await _record(tx, who, account, "service_account.remove_trust", found)
    tx.wake("access", account.id)


async def _record(tx: Tx, who: Principal, account: ServiceAccount, action: str, policy: TrustPolicy) -> None:
    details = {
        "name": account.name,
        "group": account.group,
        "policy": policy.id,
        "issuer": policy.issuer,
        "audience": policy.audience,
        "claims": ", ".join(f"{name}={value}" for name, value in sorted(policy.claims.items())),
    }
    await audit.record(tx, who, action, "service_account", account.id, details, organization_id=account.organization_id)


MAX_REMEMBERED = 100_000
"""How many tokens that have not expired are remembered for one organization. Further ones are refused until some expire."""
_COUNT_SECONDS = 30.0
_MAX_COUNTS = 10_000


class Replays:
    """Lets a token be exchanged once. Each token is remembered until it expires, and an organization has room for a limited number."""

    def __init__(
        self, db: Database, clock: Callable[[], float] = time.monotonic, max_remembered: int = MAX_REMEMBERED
    ) -> None:
        self._db, self._clock, self._max = db, clock, max_remembered
        self._remember = db.grouped(store.remember)
        self._counts: dict[str, tuple[int, float]] = {}

    async def take(self, token: ExchangedToken) -> None:
        """Remember a token. Raises TokenRefused if it is known already, or if its policy does not apply any more."""
        await self._require_room(token.organization_id)
        if not await self._remember(token):
            raise TokenRefused("the token was exchanged before, or its trust policy was removed")

    async def _require_room(self, organization_id: str) -> None:
        """Count from time to time, and in between what this server adds: the limit protects the disk and need not be exact."""
        count, counted_at = self._counts.get(organization_id, (0, float("-inf")))
        if self._clock() - counted_at > _COUNT_SECONDS or count >= self._max:
            limit = self._max
            count = await self._db.read(lambda tx: store.count_remembered(tx, organization_id, limit))
            counted_at = self._clock()
        if len(self._counts) >= _MAX_COUNTS:
            self._counts.clear()
        self._counts[organization_id] = count + 1, counted_at
        if count >= self._max:
            raise TokenRefused(f"{self._max} tokens of the organization have not expired, and no more are remembered")
