"""The public keys of issuers, found by OpenID discovery and kept for a while.

Keys are fetched again when they are old, and when a token names a key that is not known: issuers replace their keys without notice.
Anybody can make such tokens, so an issuer is not asked more often than every few seconds, unless it has just sent the token itself:
some make a key when they sign with it for the first time. While an issuer does not answer, its old keys are used for some hours.
Only tokens of that issuer wait for it: each organization has a few fetches at a time, and a fetch has an end.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

import msgspec

from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.identity.federation.verification import ParsedToken, VerifyingKey, read_keys

T = TypeVar("T")


class OrganizationCache(Generic[T]):
    def __init__(self, max_entries: int, max_organizations: int = 1000) -> None:
        """`max_entries` is for each organization. The entries that were not used for the longest time are removed first."""
        self._max_entries, self._max_organizations = max_entries, max_organizations
        self._of: OrderedDict[str, OrderedDict[str, T]] = OrderedDict()

    def get(self, organization_id: str, key: str) -> T | None:
        entries = self._of.get(organization_id)
        if entries is None or key not in entries:
            return None
        self._of.move_to_end(organization_id)
        entries.move_to_end(key)
        return entries[key]

    def put(self, organization_id: str, key: str, value: T) -> None:
        entries = self._of.setdefault(organization_id, OrderedDict())
        self._of.move_to_end(organization_id)
        entries[key] = value
        entries.move_to_end(key)
        if len(entries) > self._max_entries:
            entries.popitem(last=False)
        if len(self._of) > self._max_organizations:
            self._of.popitem(last=False)

    def drop(self, organization_id: str, is_dropped: Callable[[T], bool]) -> None:
        """Remove entries of one organization."""
        entries = self._of.get(organization_id, OrderedDict[str, T]())
        for key in [key for key, value in entries.items() if is_dropped(value)]:
            del entries[key]

    def clear(self) -> None:
        self._of.clear()

    def __len__(self) -> int:
        return sum(len(entries) for entries in self._of.values())


FRESH_SECONDS = 900.0
"""Keys that are older than this are fetched again. A key that the issuer has withdrawn is accepted for this long."""
USABLE_SECONDS = 4 * 3600.0
"""How long keys are used if the issuer does not answer."""
RETRY_SECONDS = 10.0
"""The shortest time between two fetches from one issuer for one organization, because of tokens that anybody may have made."""
MAX_ISSUERS = 50
"""The number of issuers whose keys are kept for one organization."""
MAX_FETCHES = 16
MAX_FETCHES_PER_ORGANIZATION = 4
MAX_WAITING = 64
"""How many exchanges may wait for one issuer."""
WAIT_SECONDS = 12.0
"""How long an exchange waits at most: for its turn, for the discovery document, and for the keys."""
_MAX_DOCUMENT_BYTES = 64 << 10
_MAX_KEYS_BYTES = 256 << 10
_DISCOVERY = "/.well-known/openid-configuration"


class Fetches(Protocol):
    async def get(self, url: str, max_bytes: int, organization_id: str) -> bytes: ...


class _Issuer:
    """What is known of one issuer."""

    def __init__(self) -> None:
        self.keys: tuple[VerifyingKey, ...] = ()
        self.document: dict[str, Any] = {}
        self.fetched_at = float("-inf")
        self.next_fetch_at = float("-inf")
        self.failure = ""
        self.waiting = 0
        self.turn = asyncio.Lock()

    def fitting(self, token: ParsedToken) -> tuple[VerifyingKey, ...]:
        return tuple(key for key in self.keys if key.fits(token))


class Issuers:
    def __init__(self, fetcher: Fetches, clock: Callable[[], float] = time.monotonic) -> None:
        self._fetcher, self._clock = fetcher, clock
        self._issuers: OrganizationCache[_Issuer] = OrganizationCache(MAX_ISSUERS)
        self._turns = asyncio.Semaphore(MAX_FETCHES)
        self._turns_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def keys(
        self, organization_id: str, token: ParsedToken, *, is_from_issuer: bool = False
    ) -> tuple[VerifyingKey, ...]:
        """Return the keys that may have signed this token. The caller has checked that the organization trusts its issuer.

        `is_from_issuer` says that the issuer has just answered a request of this server with the token.
        """
        known = self._known(organization_id, token.issuer)
        due_at = known.next_fetch_at
        found = known.fitting(token)
        if not found or self._age(known) > FRESH_SECONDS:
            await self._refresh(organization_id, token.issuer, known)
            found = known.fitting(token)
        if not found and is_from_issuer and known.next_fetch_at == due_at:  # it was not asked about this token
            known.next_fetch_at = float("-inf")
            await self._refresh(organization_id, token.issuer, known)
            found = known.fitting(token)
        if self._age(known) > USABLE_SECONDS:
            raise TokenRefused(f"the issuer's keys cannot be read: {known.failure or 'it does not answer'}")
        if not found:
            raise TokenRefused("the issuer has no key that fits the token")
        return found

    async def document(self, organization_id: str, issuer: str) -> Mapping[str, Any]:
        """Return the discovery document of an issuer that the organization trusts, kept for as long as its keys."""
        known = self._known(organization_id, issuer)
        if self._age(known) > FRESH_SECONDS:
            await self._refresh(organization_id, issuer, known)
        if self._age(known) > USABLE_SECONDS:
            raise TokenRefused(known.failure or "it does not answer")
        return known.document

    def _known(self, organization_id: str, issuer: str) -> _Issuer:
        known = self._issuers.get(organization_id, issuer)
        if known is None:
            known = _Issuer()
            self._issuers.put(organization_id, issuer, known)
        return known

    async def _refresh(self, organization_id: str, issuer: str, known: _Issuer) -> None:
        """Fetch the keys, unless that was done a moment ago. Others that need the same keys wait for the same fetch."""
        if not known.turn.locked() and self._clock() < known.next_fetch_at:
            return
        if known.waiting >= MAX_WAITING:
            raise TokenRefused("too many tokens of this issuer wait for its keys")
        known.waiting += 1
        try:
            async with asyncio.timeout(WAIT_SECONDS), known.turn:
                if self._clock() >= known.next_fetch_at:
                    await self._fetch(organization_id, issuer, known)
        except TimeoutError:
            known.failure = "it does not answer in time"
        finally:
            known.waiting -= 1

    async def _fetch(self, organization_id: str, issuer: str, known: _Issuer) -> None:
        own_turns = self._turns_of.get(organization_id)
        if own_turns is None:
            own_turns = self._turns_of[organization_id] = asyncio.Semaphore(MAX_FETCHES_PER_ORGANIZATION)
        try:
            async with own_turns, self._turns:
                known.document, keys = await self._read(organization_id, issuer)
            known.keys, known.failure, known.fetched_at = keys, "", self._clock()
        except TokenRefused as refused:
            known.failure = refused.reason
        finally:
            known.next_fetch_at = self._clock() + RETRY_SECONDS

    async def _read(self, organization_id: str, issuer: str) -> tuple[dict[str, Any], tuple[VerifyingKey, ...]]:
        url = issuer.rstrip("/") + _DISCOVERY
        document = await self._fetcher.get(url, _MAX_DOCUMENT_BYTES, organization_id)
        try:
            found = msgspec.json.decode(document, type=dict[str, Any])
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            raise TokenRefused("its discovery document is not JSON") from None
        keys_url = found.get("jwks_uri")
        if found.get("issuer") != issuer:
            raise TokenRefused("its discovery document is that of another issuer")
        if not isinstance(keys_url, str) or not keys_url.isascii() or not keys_url.isprintable() or " " in keys_url:
            raise TokenRefused("its discovery document does not say where its keys are")
        return found, read_keys(await self._fetcher.get(keys_url, _MAX_KEYS_BYTES, organization_id))

    def _age(self, known: _Issuer) -> float:
        return self._clock() - known.fetched_at
