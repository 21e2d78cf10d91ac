"""What this server process counts about itself: loops that failed, changes that people made, and how late its event loop is."""

import asyncio
import hmac
import secrets
import time
from pathlib import Path

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics

from terracrew.system import durable

LAG_PERIOD_SECONDS = 1.0
_LAG_BOUNDS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)

disable_created_metrics()  # one more series for each counter, which says when the process started
registry = CollectorRegistry()
"""What this process counts, in every module that counts something."""
loop_lag = Histogram(
    "terracrew_event_loop_lag_seconds",
    "How much later than asked the event loop woke a task up",
    buckets=_LAG_BOUNDS_SECONDS,
    registry=registry,
)
loop_failures = Counter(
    "terracrew_loop_failures",
    "Background loops that ended with an error and were started again",
    ("loop",),
    registry=registry,
)
changes = Counter(
    "terracrew_audited_changes", "Changes in the audit log, by what was done", ("action",), registry=registry
)

# These counters exist before the first event, because an alert on a rate needs a value to start from.
for _action in (
    "job.give_up",
    "state.adopt",
    "state.discard",
    "module.delete",
    "runner.delete",
    "user.create",
    "user.link",
):
    changes.labels(_action)


async def watch_loop_lag() -> None:
    while True:
        asked = time.monotonic()
        await asyncio.sleep(LAG_PERIOD_SECONDS)
        loop_lag.observe(max(0.0, time.monotonic() - asked - LAG_PERIOD_SECONDS))


FILE_NAME = "metrics.token"
"""The token in the data directory reads `/metrics` and nothing else, even while the database is away.

No address is enough to read the metrics: requests through a proxy on the server's machine come from loopback, too, and
not every proxy says for whom it forwards them.
"""


def ensure_token(directory: Path) -> None:
    """Write a new token unless there is one. An operator may replace it at any time."""
    file = directory / FILE_NAME
    if not file.exists():
        durable.publish(file, f"tcm_{secrets.token_urlsafe(32)}\n".encode())


def is_token(directory: Path, authorization: str) -> bool:
    """Return whether an `Authorization` header has the token."""
    scheme, _, given = authorization.partition(" ")
    try:
        expected = (directory / FILE_NAME).read_bytes().strip()
    except FileNotFoundError:
        return False
    return scheme.lower() == "bearer" and bool(expected) and hmac.compare_digest(given.strip().encode(), expected)
