"""Tells whether the scheduler's view has everything that this server was told of the queue."""

from collections.abc import Generator
from contextlib import contextmanager

from terracrew.server.db.seam import Database, Wakeups


class Freshness:
    def __init__(self) -> None:
        self._wakeups: Wakeups | None = None
        self._readers = 0

    @contextmanager
    def watching(self, db: Database) -> Generator[Wakeups]:
        """Subscribe to the changes that concern the scheduler."""
        with db.listen("queue", "freed", "tree", "assignments") as self._wakeups:
            try:
                yield self._wakeups
            finally:
                self._wakeups = None

    @contextmanager
    def reading(self) -> Generator[None]:
        """Mark that jobs are being read, so that slots may be free for jobs that are not in their lines yet."""
        self._readers += 1
        try:
            yield
        finally:
            self._readers -= 1

    @property
    def is_watching(self) -> bool:
        """Whether the scheduler runs, and learns of changes."""
        return self._wakeups is not None

    @property
    def is_current(self) -> bool:
        """Whether every queued job that this server was told of is in its line."""
        return self._wakeups is not None and not self._readers and not self._wakeups.has("queue")
