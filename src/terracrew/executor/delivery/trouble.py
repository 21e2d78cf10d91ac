"""Reports once that something between an attempt and its server answers instead of the server; the request is repeated."""

import contextlib
import logging
import time
from collections.abc import Callable

from terracrew.errors import ForeignAnswer

REPEAT_SECONDS = 3600.0
"""The same problem is reported again after this time."""
_logger = logging.getLogger("terracrew.executor")


class Trouble:
    """Writes problems to the executor's own log, and also to the job's log as long as that accepts lines."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._reported_at: dict[tuple[str, int], float] = {}
        self._unresolved: set[str] = set()

    def report(self, what: str, error: ForeignAnswer) -> None:
        """Report that `what` does not succeed. Each status of an answer is a problem of its own, which is reported once."""
        problem, now = (what, int(error.details.get("answered", 0))), time.monotonic()
        self._unresolved.add(what)
        if now - self._reported_at.get(problem, -REPEAT_SECONDS) < REPEAT_SECONDS:
            return
        self._reported_at[problem] = now
        line = f"{what} does not succeed and is tried again: {error.message}"
        _logger.warning(line)
        with contextlib.suppress(OSError):  # a full disk is reported separately
            self._say(line[0].upper() + line[1:])

    def over(self, what: str) -> None:
        if what in self._unresolved:
            self._unresolved.discard(what)
            _logger.warning("%s has succeeded", what)
