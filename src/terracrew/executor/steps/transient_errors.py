"""Finds in the output of an engine an error that may go away by itself, after which a step is tried again.

Errors of Terracrew's own say themselves whether they are transient, see `errors.py`.
"""

import re

from terracrew.backoff import jittered

MAX_DELAY_SECONDS = 300.0
_ERROR = re.compile(r"error", re.IGNORECASE)
_TRANSIENT = re.compile(
    r"connection (refused|reset by peer|timed out)|network is unreachable|no route to host|no such host|"
    r"temporary failure in name resolution|server misbehaving|i/o timeout|TLS handshake timeout|Client\.Timeout exceeded|"
    r"context deadline exceeded|unexpected EOF|could not connect to|too many requests|bad gateway|service unavailable|"
    r"gateway time-?out|internal server error|(HTTP|status|status code|code)[ :=]{1,2}(429|50[0234])\b",
    re.IGNORECASE,
)
"""What programs print if another machine is away or overloaded. The Go runtime has most of these texts."""


def is_printed(printed: str) -> bool:
    """Return whether the engine says that another machine is away. Only what follows its first error is searched."""
    first = _ERROR.search(printed)
    return first is not None and _TRANSIENT.search(printed, first.start()) is not None


def delay_seconds(first: float, retry: int) -> float:
    """Return how long to wait before this retry; the first one is 1. The delay doubles, with a random part."""
    return round(jittered(min(first * 2 ** (retry - 1), MAX_DELAY_SECONDS), 0.2), 1)
