"""Limits on token exchanges at once, and rate limits on failures.

An attempt is counted before it is evaluated and refunded if it succeeds, so attempts that run at the same time cannot pass the
limit together. Each key has a bucket that an attempt fills by one and that drains steadily. The buckets are in memory and
limited in number, and a restart forgets them.
"""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec

from terracrew import backoff
from terracrew.errors import RateLimited, Unavailable
from terracrew.server.audit.failures import Failures
from terracrew.server.db.seam import Database
from terracrew.server.secrets.keyring import Keyring

MAX_KEYS = 20_000
MAX_EXCHANGES = 32
MAX_WAIT_SECONDS = 5.0
"""A third of a runner's timeout for one request, so that there is still time for the exchange itself."""
RETRY_AFTER_SECONDS = 4.0


class Limit(msgspec.Struct, frozen=True):
    name: str
    failures: int
    """How many failures may follow one another immediately."""
    drain_seconds: float
    """The time after which one failure is forgotten."""

    def of(self, key: str) -> "Key":
        return Key(self, key)


class Key(msgspec.Struct, frozen=True):
    limit: Limit
    key: str


GUESSES = Limit("guesses", 10, 30.0)
"""The limit for one secret: the password of one name from one address, or a current password."""
ADDRESS = Limit("address", 100, 6.0)
"""The limit for all secrets from one address; it is generous, because many people may share an address."""


class LoginAttempt:
    """One attempt that was counted. Refund it if it succeeded, or if it was not evaluated."""

    def __init__(self, limits: "Limits", keys: tuple[Key, ...]) -> None:
        self._limits, self._keys = limits, keys

    def refund(self) -> None:
        self._limits.refund(*self._keys)
        self._keys = ()


class Limits:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[Key, tuple[float, float]] = OrderedDict()

    def attempt(self, *keys: Key) -> LoginAttempt:
        """Count one attempt against each key. If the bucket of one is full, raise RateLimited and count nothing."""
        wait = max((self._wait(key) for key in keys), default=0)
        if wait > 0:
            raise RateLimited(f"too many failures: try again in {wait} seconds", retry_after=wait)
        for key in keys:
            self._fill(key, 1)
        while len(self._buckets) > MAX_KEYS:
            self._buckets.popitem(last=False)
        return LoginAttempt(self, keys)

    def refund(self, *keys: Key) -> None:
        for key in keys:
            if key in self._buckets:
                self._fill(key, -1)
                if self._level(key) <= 0:
                    del self._buckets[key]

    def _wait(self, key: Key) -> int:
        over = self._level(key) - key.limit.failures + 1
        return math.ceil(over * key.limit.drain_seconds) if over > 0 else 0

    def _fill(self, key: Key, by: int) -> None:
        self._buckets[key] = max(0.0, self._level(key) + by), self._clock()
        self._buckets.move_to_end(key)

    def _level(self, key: Key) -> float:
        level, at = self._buckets.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - at) / key.limit.drain_seconds)

    def __len__(self) -> int:
        return len(self._buckets)


@dataclass(frozen=True)
class LoginGuard:
    db: Database
    limits: Limits
    keys: Keyring
    failures: Failures


class ExchangeQueue:
    """Lets only a few token exchanges run at a time, and no client wait for its turn until its request times out.

    After an outage, a whole fleet asks for tokens at once. Without this limit, a client far back in the queue gives up and asks
    again, while the server still works on the request that was given up. On a slow machine, that queue never gets shorter.
    """

    def __init__(self, at_once: int = MAX_EXCHANGES, max_wait_seconds: float = MAX_WAIT_SECONDS) -> None:
        self._turns = asyncio.Semaphore(at_once)
        self.max_wait_seconds = max_wait_seconds

    @asynccontextmanager
    async def taken(self) -> AsyncGenerator[None]:
        """Wait for a turn and keep it. A client that gets none in time is told to retry after a random delay."""
        try:
            async with asyncio.timeout(self.max_wait_seconds):
                await self._turns.acquire()
        except TimeoutError:
            later = backoff.jittered(RETRY_AFTER_SECONDS)
            raise Unavailable(
                "too many clients ask for a token at this moment; try again in a few seconds", retry_after=later
            ) from None
        try:
            yield
        finally:
            self._turns.release()
