"""Ends sessions because their provider says that the person has logged out there: by its own request, or through the browser."""

import hashlib
import time

from terracrew.server.addresses import limit_key
from terracrew.server.db.seam import Tx
from terracrew.server.identity import limits
from terracrew.server.identity.sso import refresh, store
from terracrew.server.identity.sso.exchanges import is_id
from terracrew.server.identity.sso.model import SignInFailed
from terracrew.server.identity.sso.service import SingleSignOn

MAX_AGE_SECONDS = 600.0
"""A logout token that is older is refused, so that only the ids of young ones must be remembered."""


async def back_channel(sso: SingleSignOn, provider_id: str, text: str, address: str) -> int:
    """End the sessions that a logout token names, and return how many people they belonged to. Raises SignInFailed."""
    key = limits.ADDRESS.of(f"logout:{limit_key(address)}")
    attempt = sso.guard.limits.attempt(key)
    provider = await sso.enabled(provider_id)
    found = await sso.exchanges.logout_claims(provider, text, time.time())
    issued_at = found.get("iat")
    is_young = isinstance(issued_at, int | float) and issued_at > time.time() - MAX_AGE_SECONDS
    if not is_young:
        raise SignInFailed("the logout token is too old")
    attempt.refund()
    used = hashlib.sha256(f"{provider.id} {found['jti']}".encode()).hexdigest()
    sid, subject = found.get("sid"), found.get("sub")

    async def work(tx: Tx) -> int:
        if not await store.use(tx, used, tx.now + 2 * MAX_AGE_SECONDS):
            raise SignInFailed("the logout token was used before")
        named = await store.sessions_of_logout(
            tx, provider.id, sid if is_id(sid) else None, subject if is_id(subject) else None
        )
        return await refresh.end_sessions(tx, provider.id, named, f"logged out at {provider.name}")

    return await sso.db.write(work)


async def front_channel(sso: SingleSignOn, provider_id: str, issuer: str, sid: str, address: str) -> int:
    """End the session that the provider's logout page names in the browser. Who knows the `sid` has the session at the provider."""
    attempt = sso.guard.limits.attempt(limits.ADDRESS.of(f"logout:{limit_key(address)}"))
    provider = await sso.enabled(provider_id)
    if issuer != provider.issuer or not is_id(sid):
        raise SignInFailed("the logout is that of another provider, or names no session")

    async def work(tx: Tx) -> int:
        named = await store.sessions_of_logout(tx, provider.id, sid, None)
        return await refresh.end_sessions(tx, provider.id, named, f"logged out at {provider.name}")

    ended = await sso.db.write(work)
    if ended:
        attempt.refund()
    return ended
