"""Lets a token be exchanged once. Each token is remembered until it expires, and an organization has room for a limited number."""

import time
from collections.abc import Callable

from terracrew.server.db.seam import Database
from terracrew.server.identity.federation import store
from terracrew.server.identity.federation.model import TokenRefused
from terracrew.server.identity.federation.store import ExchangedToken

MAX_REMEMBERED = 100_000
"""How many tokens that have not expired are remembered for one organization. Further ones are refused until some expire."""
_COUNT_SECONDS = 30.0
_MAX_COUNTS = 10_000


class Replays:
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
