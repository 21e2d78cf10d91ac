"""The issuer of the tokens for clouds, where its keys are copies at another address than this server's.

A server in a private network has them in a public bucket. Nothing but a person copies them there, so this server looks there: a key
that the copy does not have must not sign, because clouds would refuse the tokens.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from terracrew.api.operations import IssuerView
from terracrew.server.db.seam import Database
from terracrew.server.identity.federation import rules
from terracrew.server.identity.federation.fetching import Fetcher
from terracrew.server.identity.federation.issuers import Fetches
from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.identity.keys.rotation import ROTATION_SECONDS
from terracrew.server.identity.keys.signing import SigningKeys
from terracrew.server.identity.oidc import cloud
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

MAX_DOCUMENT_BYTES = 256 << 10
EXPORT = "run `terracrew server issuer export DIRECTORY` and publish both files there"


class _Look(msgspec.Struct, frozen=True):
    at: float
    key_ids: frozenset[str] = frozenset()
    refusal: str = ""


class Issuer:
    def __init__(
        self, url: str, own_url: str, fetcher: Fetches | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        self.url, self.is_separate = url, url != own_url
        self._fetcher, self._clock = fetcher or Fetcher(frozenset({rules.origin(url)})), clock
        self._last: _Look | None = None

    async def published_keys(self) -> frozenset[str] | None:
        """Return the ids of the keys that clouds find at the issuer's address; None if it is this server, which publishes all."""
        if not self.is_separate:
            return None
        try:
            self._last = _Look(self._clock(), await self._read())
        except TokenRefused as refused:
            self._last = _Look(self._clock(), refusal=refused.reason)
        return self._last.key_ids

    async def _read(self) -> frozenset[str]:
        wanted = cloud.configuration(self.url)
        found = await self._document(f"{self.url}/.well-known/openid-configuration")
        for name in ("issuer", "jwks_uri"):
            if found.get(name) != wanted[name]:
                raise TokenRefused(
                    f"its discovery document says {name} {str(found.get(name))[:200]!r}, not {wanted[name]!r}"
                )
        keys: Any = (await self._document(wanted["jwks_uri"])).get("keys")
        if not isinstance(keys, list):
            raise TokenRefused("its jwks.json has no list of keys")
        return frozenset(str(key.get("kid")) for key in keys if isinstance(key, dict))  # pyright: ignore[reportUnknownArgumentType,reportUnknownMemberType,reportUnknownVariableType]

    async def _document(self, url: str) -> dict[str, Any]:
        content = await self._fetcher.get(url, MAX_DOCUMENT_BYTES, "")
        try:
            return msgspec.json.decode(content, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise TokenRefused(f"{url} is not a JSON document") from None

    def problem(self, signing: SigningKeys) -> str:
        """Say what is wrong with the documents at the issuer's address, and what to do; empty if nothing is known to be."""
        last, state = self._last, signing.state
        if last is None or not self.is_separate:
            return ""
        if last.refusal:
            return f"the documents of the issuer {self.url} cannot be read: {last.refusal}. Clouds need both: {EXPORT}"
        if state.active_id not in last.key_ids:
            return f"the issuer {self.url} does not have the key that signs now, so clouds refuse its tokens: {EXPORT}"
        if state.next_id is not None and state.next_id not in last.key_ids:
            since = "" if state.next_signs_from is None else f" from {moment(state.next_signs_from):%d %b %Y} on"
            words = f"the issuer {self.url} does not have the next key, which is to sign{since}: {EXPORT}"
            return f"{words}. Until then the old key signs"
        return ""

    def view(self, signing: SigningKeys) -> IssuerView:
        state, last = signing.state, self._last
        export_by = None if state.next_signs_from is None else moment(state.next_signs_from + ROTATION_SECONDS)
        return IssuerView(
            issuer=self.url,
            is_separate=self.is_separate,
            configuration=cloud.configuration(self.url),
            jwks=signing.jwks(),
            signing_key=state.active_id,
            next_key=state.next_id,
            next_signs_from=None if state.next_signs_from is None else moment(state.next_signs_from),
            export_by=export_by if self.is_separate else None,
            problem=self.problem(signing),
            looked_at=None if last is None else moment(last.at),
        )


async def show(
    db: Database, who: Principal, issuer: Issuer, signing: SigningKeys, *, must_look: bool = True
) -> IssuerView:
    """Return the issuer to an administrator of the server.

    With `must_look`, its address is asked now, which may take seconds; otherwise, the answer has what was found there last.
    """
    await authorize.require(db, who, Verb.SERVER_ADMIN, authorize.SERVER)
    await signing.load()
    if must_look:
        await issuer.published_keys()
    return issuer.view(signing)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
