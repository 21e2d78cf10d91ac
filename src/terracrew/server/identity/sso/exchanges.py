"""Asks a provider for tokens, and verifies what it answers. Its keys are found as those of every other issuer."""

import base64
import hmac
from collections.abc import Mapping
from typing import Any, TypeGuard, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from terracrew.server.identity.federation import rules, verification
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.issuers import Issuers
from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.identity.sso.model import ProviderTokens, SignInFailed, StoredProvider, Verified
from terracrew.server.outgoing.client import OutgoingRequest

EXCHANGE_SECONDS = 8.0
MAX_TOKEN_CHARACTERS = 100_000
"""An ID token comes from the provider itself, and two hundred groups make it longer than the tokens of machines."""
MAX_ANSWER_BYTES = 512 << 10
MAX_REFRESH_TOKEN_CHARACTERS = 16_000
"""Each session keeps one."""
MAX_SUBJECT_CHARACTERS = 255
_OTHER_TYPES = frozenset({"at+jwt", "logout+jwt", "application/at+jwt", "application/logout+jwt"})
_LOGOUT_TYPES = frozenset({"logout+jwt", "application/logout+jwt", "jwt"})
_LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
GONE = "invalid_grant"


class _TokenAnswer(msgspec.Struct, frozen=True):
    """Some providers write null for what they do not send, and numbers as texts."""

    id_token: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    refresh_expires_in: float | None = None


class _ErrorAnswer(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class Exchanges:
    def __init__(self, fetcher: Fetcher, issuers: Issuers) -> None:
        self._fetcher, self._issuers = fetcher, issuers

    async def document(self, provider: StoredProvider) -> Mapping[str, Any]:
        try:
            return await self._issuers.document(provider.organization_id, provider.issuer)
        except TokenRefused as refused:
            raise SignInFailed(f"{provider.name} cannot be reached: {refused.reason}") from None

    async def endpoint(self, provider: StoredProvider, name: str) -> str:
        """Return an address from the discovery document, if a browser or this server may be sent there."""
        found = (await self.document(provider)).get(name)
        if not isinstance(found, str) or not found.isascii() or not found.isprintable() or " " in found or "#" in found:
            raise SignInFailed(f"the discovery document of {provider.name} has no {name}")
        try:
            is_private = self._fetcher.require_reachable(found)
            if is_private and not self._fetcher.require_reachable(provider.issuer):
                raise TokenRefused("it belongs to a private issuer, and somebody else's document names it")
            if not urlsplit(found).hostname or "@" in urlsplit(found).netloc:
                raise TokenRefused("it is not an address")
        except (TokenRefused, ValueError):
            raise SignInFailed(f"the {name} of {provider.name} is not a public https address") from None
        return found

    async def tokens(self, provider: StoredProvider, secret: str, grant: Mapping[str, str]) -> ProviderTokens:
        """Ask the token endpoint. Raises SignInFailed with what the provider says."""
        url = await self.endpoint(provider, "token_endpoint")
        form, headers = dict(grant), {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        if secret and await self._takes_basic(provider):
            user_password = f"{quote(provider.client_id, safe='')}:{quote(secret, safe='')}"
            headers["Authorization"] = "Basic " + base64.b64encode(user_password.encode()).decode()
        else:
            form["client_id"] = provider.client_id
            if secret:
                form["client_secret"] = secret
        body = urlencode(form).encode()
        request = OutgoingRequest(url, "POST", headers, body, seconds=EXCHANGE_SECONDS, max_bytes=MAX_ANSWER_BYTES)
        try:
            answer = await self._fetcher.send(provider.organization_id, request)
        except TokenRefused as refused:
            raise SignInFailed(f"{provider.name} did not answer: {refused.reason}") from None
        try:
            if answer.status == 200:
                found = msgspec.json.decode(answer.body, type=_TokenAnswer, strict=False)
                if len(found.refresh_token or "") > MAX_REFRESH_TOKEN_CHARACTERS:
                    raise SignInFailed(f"the refresh token is too long that {provider.name} sent")
                return ProviderTokens(
                    found.id_token or "",
                    found.access_token or "",
                    found.refresh_token or "",
                    found.refresh_expires_in,
                )
            said = msgspec.json.decode(answer.body, type=_ErrorAnswer)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            said = _ErrorAnswer()
        words = " ".join(filter(None, (said.error[:100], said.error_description[:300])))
        is_gone = answer.status in (400, 401) and said.error == GONE
        reason = f"{provider.name} refuses the token: {words or f'status {answer.status}'}"
        raise SignInFailed(
            reason if reason.isprintable() else f"{provider.name} refuses the token", is_grant_gone=is_gone
        )

    async def verified(
        self,
        provider: StoredProvider,
        tokens: ProviderTokens,
        now: float,
        nonce: str | None,
        subject: str | None = None,
    ) -> Verified:
        """Return who has logged in. `subject` is who it must be, if that is known; without a nonce none may be wrong."""
        if not tokens.id_token:
            raise SignInFailed(f"{provider.name} sent no ID token: `openid` must be one of the scopes")
        claims, kind = await self._claims(provider, tokens.id_token, now, is_from_issuer=True)
        if kind in _OTHER_TYPES or "events" in claims:
            raise SignInFailed("the token is not an ID token")
        given = claims.get("nonce")
        if nonce is not None and not (isinstance(given, str) and hmac.compare_digest(given.encode(), nonce.encode())):
            raise SignInFailed("the token was made for another login: its nonce is not that of this one")
        found = checked_subject(claims)
        if subject is not None and found != subject:
            raise SignInFailed("the token is that of another person")
        if provider.reads_userinfo:
            claims = await self._with_userinfo(provider, tokens.access_token, claims)
        sid = claims.get("sid")
        return Verified(
            found,
            claims,
            sid if is_id(sid) else "",
            tokens.refresh_token,
            tokens.refresh_expires_in,
        )

    async def refreshed(self, provider: StoredProvider, tokens: ProviderTokens, subject: str) -> Verified:
        """Return what a refresh says that came without an ID token: the claims of the userinfo endpoint, if they are wanted."""
        claims: dict[str, Any] = {}
        if provider.reads_userinfo:
            claims = await self._with_userinfo(provider, tokens.access_token, {"sub": subject, "iss": provider.issuer})
        return Verified(subject, claims, "", tokens.refresh_token, tokens.refresh_expires_in)

    async def logout_claims(self, provider: StoredProvider, text: str, now: float) -> dict[str, Any]:
        """Return the claims of a logout token (OpenID Connect Back-Channel Logout 1.0, 2.6)."""
        claims, kind = await self._claims(provider, text, now)
        events = claims.get("events")
        event = cast("dict[str, Any]", events).get(_LOGOUT_EVENT) if isinstance(events, dict) else None
        if kind is not None and kind not in _LOGOUT_TYPES:
            raise SignInFailed("the token is not a logout token")
        if not isinstance(event, dict) or "nonce" in claims:
            raise SignInFailed("the token is not a logout token")
        names = [name for name in ("sub", "sid", "jti") if claims.get(name) not in (None, "")]
        if "jti" not in names or len(names) < 2 or not all(is_id(claims[name]) for name in names):
            raise SignInFailed("the logout token has no jti, or neither sub nor sid")
        return claims

    async def _claims(
        self, provider: StoredProvider, text: str, now: float, *, is_from_issuer: bool = False
    ) -> tuple[dict[str, Any], str | None]:
        """Verify signature, issuer, audience and times of a token. Return its claims and the type in its header, in lower case."""
        try:
            token = verification.parse(text, MAX_TOKEN_CHARACTERS)
            if token.issuer != provider.issuer:
                raise TokenRefused("the token is that of another issuer")
            keys = await self._issuers.keys(provider.organization_id, token, is_from_issuer=is_from_issuer)
            claims = verification.verify(token, keys)
            rules.check_times(claims, now)
        except TokenRefused as refused:
            raise SignInFailed(refused.reason) from None
        check_audience(claims, provider.client_id)
        kind = token.signed.headers().get("typ")
        return claims, kind.lower() if isinstance(kind, str) else None

    async def _with_userinfo(
        self, provider: StoredProvider, access_token: str, claims: dict[str, Any]
    ) -> dict[str, Any]:
        url = await self.endpoint(provider, "userinfo_endpoint")
        headers = {"Accept": "application/json", "Authorization": f"Bearer {access_token}"}
        request = OutgoingRequest(url, headers=headers, seconds=EXCHANGE_SECONDS, max_bytes=MAX_ANSWER_BYTES)
        try:
            answer = await self._fetcher.send(provider.organization_id, request)
            found = msgspec.json.decode(answer.body, type=dict[str, Any]) if answer.status == 200 else None
        except TokenRefused as refused:
            raise SignInFailed(f"{provider.name} did not answer: {refused.reason}") from None
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            found = None
        if found is None or found.get("sub") != claims.get("sub"):
            raise SignInFailed(
                f"the userinfo endpoint of {provider.name} did not answer with the claims of this person"
            )
        return found | claims

    async def _takes_basic(self, provider: StoredProvider) -> bool:
        """Return whether the client's secret goes into the header, as it does unless the provider says otherwise."""
        methods = (await self.document(provider)).get("token_endpoint_auth_methods_supported")
        return not isinstance(methods, list) or "client_secret_basic" in methods


def check_audience(claims: Mapping[str, Any], client_id: str) -> None:
    """Refuse a token that was made for another client."""
    given = claims.get("aud")
    audiences = cast("list[object]", given) if isinstance(given, list) else [given]
    if client_id not in audiences:
        raise SignInFailed("the token was made for another client: its aud is not the client id")
    party = claims.get("azp")
    if (len(audiences) > 1 and party is None) or (party is not None and party != client_id):
        raise SignInFailed("the token was made for another client: its azp is not the client id")


def checked_subject(claims: Mapping[str, Any]) -> str:
    found = claims.get("sub")
    if not is_id(found):
        raise SignInFailed(f"the token's sub is not a text of 1 to {MAX_SUBJECT_CHARACTERS} characters")
    return found


def is_id(value: object) -> TypeGuard[str]:
    """Return whether a value can be the id of a person, a session or a token: every database takes it."""
    return isinstance(value, str) and 0 < len(value) <= MAX_SUBJECT_CHARACTERS and value.isprintable()
