"""Sends browsers to a provider, and lets them in when they come back: the authorization code flow with PKCE."""

import base64
import hashlib
import hmac
import secrets
import time
from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec

from terracrew.errors import RateLimited
from terracrew.server.addresses import limit_key
from terracrew.server.identity import limits
from terracrew.server.identity.federation.service import Trust
from terracrew.server.identity.limits import LoginGuard
from terracrew.server.identity.sso import arrivals, sealing, self_links, store
from terracrew.server.identity.sso.arrivals import SignInResult
from terracrew.server.identity.sso.exchanges import Exchanges
from terracrew.server.identity.sso.model import SignInFailed, StoredProvider
from terracrew.server.principals.model import Principal
from terracrew.server.secrets import sealed_texts
from terracrew.server.secrets.keyring import Keyring

COOKIE = "terracrew_sign_in"
ATTEMPT_SECONDS = 600
"""How long somebody has for the provider's login page."""
MAX_NEXT_CHARACTERS = 1000
MAX_CODE_CHARACTERS = 8000
_CONTEXT = "single sign-on"
STALE = "this login was begun in another browser, or too long ago: start again"


class SignInAttempt(msgspec.Struct, frozen=True):
    """A login that is under way, in the cookie of the browser that has begun it. It is encrypted, and nothing is stored."""

    provider_id: str
    state: str
    nonce: str
    verifier: str
    next: str
    begun_at: float
    session_id: str = ""
    """The session whose person links themselves; empty for a login."""

    def __repr__(self) -> str:
        return f"SignInAttempt({self.provider_id})"


class Arrived(msgspec.Struct, frozen=True):
    arrival: SignInResult
    next: str


class SingleSignOn:
    def __init__(self, guard: LoginGuard, exchanges: Exchanges, trust: Trust) -> None:
        self.guard, self.exchanges, self.trust = guard, exchanges, trust
        self.db, self.keys = guard.db, guard.keys

    def redirect_uri(self, provider_id: str) -> str:
        """Return where a provider sends browsers back to: each its own address, so that no provider can pass for another one."""
        return f"{self.trust.url}/login/sso/{provider_id}/callback"

    async def begin(self, provider_id: str, next_page: str, session_id: str = "") -> tuple[str, str]:
        """Return where to send the browser, and the cookie that binds the answer to it.

        Who links themselves, from the session with this id, has to log in at the provider anew: somebody else could have logged their
        browser in there.
        """
        provider = await self.enabled(provider_id)
        url = await self.exchanges.endpoint(provider, "authorization_endpoint")
        attempt = SignInAttempt(
            provider.id,
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(32),
            secrets.token_urlsafe(48),
            next_page[:MAX_NEXT_CHARACTERS],
            time.time(),
            session_id,
        )
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": self.redirect_uri(provider.id),
            "scope": provider.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": challenge(attempt.verifier),
            "code_challenge_method": "S256",
        } | ({"prompt": "login"} if session_id else {})
        return f"{url}{'&' if '?' in url else '?'}{urlencode(asked)}", sealed_texts.seal(self.keys, attempt, _CONTEXT)

    async def complete(
        self, provider_id: str, cookie: str, given: Mapping[str, str], address: str, who: Principal | None = None
    ) -> Arrived:
        """Let somebody in who comes back from a provider, or link the caller who has begun that. Raises SignInFailed.

        What does not let anybody in counts against the address: the logins that are kept for administrators are few, and nobody
        may push the others out of sight.
        """
        try:
            counted = self.guard.limits.attempt(limits.ADDRESS.of(f"single_sign_on:{limit_key(address)}"))
        except RateLimited as limited:
            self.guard.failures.note("single_sign_on.fail", address, is_limited=True)
            raise SignInFailed(limited.message) from None
        found = await self._answered(provider_id, cookie, given, address, who)
        if found.arrival.user is not None:
            counted.refund()
        return found

    async def _answered(
        self, provider_id: str, cookie: str, given: Mapping[str, str], address: str, who: Principal | None
    ) -> Arrived:
        attempt = unseal(self.keys, cookie, time.time())
        is_own = attempt is not None and attempt.provider_id == provider_id
        if attempt is None or not is_own or not _is_same(given.get("state", ""), attempt.state):
            raise self._suspicious(address, STALE)
        if attempt.session_id and (who is None or who.credential_id != attempt.session_id):
            raise self._suspicious(address, "this link was begun in another session: log in and start again")
        used = hashlib.sha256(attempt.state.encode()).hexdigest()
        if not await self.db.write(lambda tx: store.use(tx, used, tx.now + 2 * ATTEMPT_SECONDS)):
            raise self._suspicious(address, "this login was completed before: start again")
        provider = await self.enabled(provider_id)
        try:
            return await self._complete(provider, attempt, given, address, who)
        except SignInFailed as failed:
            await self._note_failure(provider, failed.reason, address)
            raise

    async def _complete(
        self,
        provider: StoredProvider,
        attempt: SignInAttempt,
        given: Mapping[str, str],
        address: str,
        who: Principal | None,
    ) -> Arrived:
        await self._check_issuer(provider, given.get("iss"))
        if (error := given.get("error")) is not None:
            words = " ".join(filter(None, (error[:100], given.get("error_description", "")[:300])))
            raise SignInFailed(f"{provider.name} says: {words if words.isprintable() else 'an error'}")
        code = given.get("code", "")
        if not 0 < len(code) <= MAX_CODE_CHARACTERS:
            raise SignInFailed(f"{provider.name} sent no code")
        grant = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.redirect_uri(provider.id),
            "code_verifier": attempt.verifier,
        }
        tokens = await self.exchanges.tokens(provider, sealing.client_secret(self.keys, provider), grant)
        verified = await self.exchanges.verified(provider, tokens, time.time(), attempt.nonce)
        if attempt.session_id and who is not None:
            linked = await self.db.write(lambda tx: self_links.link(tx, who, provider.id, verified, address))
            return Arrived(linked, attempt.next)
        keys = self.keys
        arrival = await self.db.write(lambda tx: arrivals.arrive(tx, keys, provider.id, verified, address))
        return Arrived(arrival, attempt.next)

    async def _check_issuer(self, provider: StoredProvider, given: str | None) -> None:
        """Refuse an answer of another provider (RFC 9207), or one that does not say so although its provider always does."""
        document = await self.exchanges.document(provider)
        is_required = document.get("authorization_response_iss_parameter_supported") is True
        if given != provider.issuer and (given is not None or is_required):
            raise SignInFailed("the answer comes from another provider than the one that was asked")

    async def enabled(self, provider_id: str) -> StoredProvider:
        """Return a provider by which people can log in now. Raises SignInFailed."""
        provider = await self.db.read(lambda tx: store.provider(tx, provider_id))
        if provider is None or not provider.is_enabled:
            raise SignInFailed("there is no such provider, or it is disabled")
        return provider

    async def _note_failure(self, provider: StoredProvider, reason: str, address: str) -> None:
        await self.db.write(lambda tx: store.insert_login(tx, provider.id, "", None, "failed", reason, {}, address))
        self.guard.failures.note("single_sign_on.fail", address, organization_id=provider.organization_id)

    def _suspicious(self, address: str, reason: str) -> SignInFailed:
        """Note a failure of this address, and return the error."""
        self.guard.failures.note("single_sign_on.fail", address)
        return SignInFailed(reason)


def challenge(verifier: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def unseal(keys: Keyring, cookie: str, now: float) -> SignInAttempt | None:
    """Return the login that this browser has begun; None if it has begun none, or one that is too old."""
    found = sealed_texts.unseal(keys, cookie, SignInAttempt, _CONTEXT)
    return found if found is not None and 0 <= now - found.begun_at < ATTEMPT_SECONDS else None


def _is_same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
