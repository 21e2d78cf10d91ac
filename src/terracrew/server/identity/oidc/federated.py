"""Exchanges a token of another issuer for an access token of a service account that trusts it (RFC 8693, RFC 7523).

Every failure gets the same answer after the same time, and its reason is in the audit log of the account's organization. Only a caller
who names the issuer that an existing account trusts can wait longer than that: for the issuer's keys.
"""

import asyncio
import time
from collections.abc import Callable

from terracrew.api.access import TrustPolicy
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import credential_store
from terracrew.server.identity.federation import rules, store, verification
from terracrew.server.identity.federation.issuers import Issuers, OrganizationCache
from terracrew.server.identity.federation.model import TokenRefused, TrustedAccount
from terracrew.server.identity.federation.service import Replays, Trust
from terracrew.server.identity.federation.store import ExchangedToken
from terracrew.server.identity.oidc import tokens as access_tokens
from terracrew.server.identity.oidc.tokens import CACHE_SECONDS, USED_AT_SECONDS, AccessToken, AccessTokens
from terracrew.server.tree.groups import reads as groups
from terracrew.server.tree.groups import tree_path

FAILURE_SECONDS = 0.1
"""A failure is answered after this time at the earliest, so that the time does not tell how far the check came."""
MAX_CACHED_ACCOUNTS = 500
"""For each organization."""
_MAX_CLIENT_CHARACTERS = 2000


class FederatedTokens:
    def __init__(
        self,
        db: Database,
        tokens: AccessTokens,
        issuers: Issuers,
        replays: Replays,
        trust: Trust,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._db, self._tokens, self._issuers, self._replays = db, tokens, issuers, replays
        self.trust, self.clock = trust, clock
        self._accounts: OrganizationCache[tuple[TrustedAccount, float]] = OrganizationCache(MAX_CACHED_ACCOUNTS)
        self._organizations: dict[str, tuple[str, float]] = {}
        tokens.on_forget.append(self._forget)

    async def exchange(self, client_id: str, token: str, address: str) -> AccessToken:
        """Exchange a token that a trust policy of the account accepts. `client_id` is `<organization>:<account>`, or an account."""
        started_at, account = time.monotonic(), None
        try:
            account = await self._account(client_id)
            policy, exchanged = await self._accepted(account, token)
            async with self._tokens.turns.taken():  # before the token is used up: a client without a turn asks again
                if not policy.is_reusable:
                    await self._replays.take(exchanged)
                signed = await self._tokens.sign("service_account", account.id, account.organization_id, policy.id)
                await self._note_use(policy)
        except TokenRefused as refused:
            kind, target = ("service_account", account.id) if account else ("", "")
            organization_id = account.organization_id if account else None
            error = self._tokens.failed(client_id, address, kind, target, organization_id, refused.reason)
            await asyncio.sleep(max(0.0, FAILURE_SECONDS - (time.monotonic() - started_at)))
            raise error from None
        return AccessToken(signed, access_tokens.LIFETIME_SECONDS)

    async def _accepted(self, account: TrustedAccount, text: str) -> tuple[TrustPolicy, ExchangedToken]:
        """Return the policy that accepts this token, and what to remember of it. Nothing is believed before the signature."""
        token = verification.parse(text)
        trusting = tuple(policy for policy in account.policies if policy.issuer == token.issuer)
        if not trusting or token.issuer.rstrip("/") in self.trust.own_issuers:
            raise TokenRefused("no trust policy of the account names the token's issuer")
        keys = await self._issuers.keys(account.organization_id, token)
        claims = verification.verify(token, keys)
        now = self.clock()
        ends_at = rules.check_times(claims, now)
        policy = rules.matching(trusting, claims, ends_at, now)
        kept_until = ends_at + rules.LEEWAY_SECONDS
        return policy, ExchangedToken(account.organization_id, token.sha256, policy.id, kept_until)

    async def _account(self, client_id: str) -> TrustedAccount:
        """Return the account that a client id names. Only accounts that exist are cached, and only for a few seconds."""
        prefix, _, client = client_id.rpartition(":")
        if not client_id.isprintable() or len(client_id) > _MAX_CLIENT_CHARACTERS:
            raise TokenRefused("there is no such service account")
        now = time.monotonic()
        place = (
            f"{prefix}:" if prefix else client
        )  # an account without an organization is not taken for the name of one
        organization_id, known_until = self._organizations.get(place, ("", 0.0))
        cached = self._accounts.get(organization_id, client) if now < known_until else None
        if cached is not None and now < cached[1]:
            return cached[0]
        found = await self._db.read(lambda tx: _find(tx, prefix, client))
        if found is None:
            raise TokenRefused("there is no such service account, or it has no trust policy")
        if len(self._organizations) >= MAX_CACHED_ACCOUNTS:
            self._organizations.clear()
        self._organizations[place] = found.organization_id, now + CACHE_SECONDS
        self._accounts.put(found.organization_id, client, (found, now + CACHE_SECONDS))
        return found

    async def _note_use(self, policy: TrustPolicy) -> None:
        used_at = policy.last_used_at
        if used_at is not None and used_at.timestamp() > time.time() - USED_AT_SECONDS:
            return
        await self._db.write(lambda tx: store.note_use(tx, policy.id))
        self._accounts.drop(policy.organization_id, lambda entry: entry[0].id == policy.service_account_id)

    def _forget(self, principal_id: str) -> None:
        if principal_id.startswith("sac_") or not principal_id:
            self._accounts.clear()


async def _find(tx: Tx, prefix: str, client: str) -> TrustedAccount | None:
    if prefix:
        organization_id = await groups.organization_id(tx, prefix)
    elif client.startswith("sac_"):
        organization_id = (await credential_store.client(tx, client))[1]
    else:
        # Another organization may have an account of the same path. Nothing but the path says which one is meant, so only the path of
        # a server's only organization may stand alone: otherwise whoever owns the other one would get somebody else's runners.
        organization_id = await groups.only_organization_id(tx)
    if organization_id is None:
        return None
    if client.startswith("sac_"):
        return await store.trusted_account(tx, organization_id, client)
    group, name = tree_path.split(client)
    return await store.trusted_account_at(tx, organization_id, group, name)
