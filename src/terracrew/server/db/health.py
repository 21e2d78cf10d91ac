"""The health of the database as this process sees it: how long commits take, how many writes wait, and the last failure."""

import time
from collections.abc import Callable

from prometheus_client import Counter, Histogram

COMMIT_BOUNDS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Health:
    def __init__(self, waiting: Callable[[], int], is_reachable: Callable[[], bool] = lambda: True) -> None:
        self.waiting = waiting
        """How many units of work wait for their turn to write."""
        self.is_reachable = is_reachable
        self.commits = Histogram(
            "terracrew_database_commit_seconds",
            "Time from the start of a write transaction to its commit",
            buckets=COMMIT_BOUNDS_SECONDS,
            registry=None,
        )
        self.errors = Counter(
            "terracrew_database_errors",
            "Transactions that failed because of the database itself",
            ("kind",),
            registry=None,
        )
        for kind in ("away", "busy", "storage", "deadlock"):
            self.errors.labels(kind)
        self._refused_at = float("-inf")
        self._refusal = ""

    def committed(self, started: float) -> None:
        """Record that a write transaction that began at this monotonic time was committed."""
        self.commits.observe(time.monotonic() - started)

    def refused(self, kind: str, reason: str) -> None:
        """Record that a write failed for a reason other than its content."""
        self.errors.labels(kind).inc()
        if kind == "storage":
            self._refused_at, self._refusal = time.monotonic(), reason

    def refused_within(self, seconds: float) -> str:
        """Return why the storage (a full disk, say) refused a write, if it did not longer ago than this; otherwise an empty text."""
        return self._refusal if time.monotonic() - self._refused_at <= seconds else ""
