"""Rate limits that count failures only: guessing gets slow, and whoever knows the secret is never in the way.

Each key has a bucket that a failure fills by one and that drains steadily. In memory and bounded: a restart forgives.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from terracrew.errors import RateLimited

FAILURES = 10
"""How many may follow one another at once."""
DRAIN_SECONDS = 30.0
"""How long one failure takes to be forgotten."""
KEYS = 20_000


class Limits:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, *keys: str) -> None:
        """Refuse if one of the keys has failed too often."""
        full = max((self._level(key) for key in keys), default=0.0)
        if full > FAILURES - 1:
            wait = math.ceil((full - FAILURES + 1) * DRAIN_SECONDS)
            raise RateLimited(f"too many failures: try again in {wait} seconds", retry_after=wait)

    def failed(self, *keys: str) -> None:
        """Count one failure against each of the keys."""
        for key in keys:
            self._buckets[key] = (min(self._level(key) + 1, FAILURES), self._clock())
            self._buckets.move_to_end(key)
        while len(self._buckets) > KEYS:
            self._buckets.popitem(last=False)

    def _level(self, key: str) -> float:
        level, at = self._buckets.get(key, (0.0, 0.0))
        return max(0.0, level - (self._clock() - at) / DRAIN_SECONDS)

    def __len__(self) -> int:
        return len(self._buckets)
