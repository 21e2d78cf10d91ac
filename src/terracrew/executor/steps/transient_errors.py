"""Finds in the output of an engine an error that may go away by itself, after which a step is tried again.

Errors of Terracrew's own say themselves whether they are transient, see `errors.py`.
"""

import re

from terracrew.backoff import jittered
from terracrew.executor.engines import network_errors

MAX_DELAY_SECONDS = 300.0
_ERROR = re.compile(r"error", re.IGNORECASE)


def is_printed(printed: str) -> bool:
    """Return whether the engine says that another machine is away. Only what follows its first error is searched."""
    first = _ERROR.search(printed)
    return first is not None and network_errors.is_in(printed, first.start())


def delay_seconds(first: float, retry: int) -> float:
    """Return how long to wait before this retry; the first one is 1. The delay doubles, with a random part."""
    return round(jittered(min(first * 2 ** (retry - 1), MAX_DELAY_SECONDS), 0.2), 1)
