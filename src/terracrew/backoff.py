"""Random delays: between retries, and between the rounds of a loop that many processes run.

Processes that lost the same server, or that started together, would otherwise come back at the same moment.
"""

import random

from terracrew.errors import RateLimited, Unavailable

FIRST_DELAY_SECONDS = 0.5
MAX_DELAY_SECONDS = 8.0
MAX_DELAY_WHEN_UNAVAILABLE_SECONDS = 1.0


def jittered(seconds: float, fraction: float = 0.5) -> float:
    """Return a random delay around `seconds`: by default between half of it and half more."""
    return seconds * random.uniform(1 - fraction, 1 + fraction)  # noqa: S311 - spreads load, guards no secret


def below(seconds: float) -> float:
    """Return a random delay between nothing and `seconds`."""
    return random.uniform(0, seconds)  # noqa: S311 - spreads load, guards no secret


class Backoff:
    """Delays between retries: random, below a limit that doubles with each retry.

    The whole range is used, so that thousands of processes that lost the same server spread evenly over it, and none
    waits long because it was among the first to retry.
    """

    def __init__(self, first: float = FIRST_DELAY_SECONDS, longest: float = MAX_DELAY_SECONDS) -> None:
        self._first, self._longest, self._limit = first, longest, first

    def next(self, why: Exception | None = None) -> float:
        """Return how long to wait after this error. A server that answers may say how long to stay away."""
        limit, self._limit = self._limit, min(self._limit * 2, self._longest)
        if isinstance(why, Unavailable):  # the server answers, but it is busy or its database is down
            limit = min(limit, max(MAX_DELAY_WHEN_UNAVAILABLE_SECONDS, float(why.details.get("retry_after", 0))))
        least = float(why.details.get("retry_after", 0)) if isinstance(why, RateLimited) else 0.0
        return least + below(limit)

    def reset(self) -> None:
        """Start over with the first delay, after something succeeded."""
        self._limit = self._first
