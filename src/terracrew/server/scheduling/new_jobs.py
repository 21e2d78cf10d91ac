"""The jobs that this server has just created: its scheduler need not read them, and the other servers are told of them later.

If each server claimed every new job for its own runners, all claims of a job but one would be refused. So the other servers are told
of a job if nobody here can take it, or when its claim here was refused. If this server stops before, their sweeps find the job.
"""

from collections.abc import Container, Generator, Iterable
from contextlib import contextmanager
from itertools import islice

from terracrew.server.db.seam import Database, Wakeups
from terracrew.server.scheduling.queue import Waiting


class NewJobs:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._jobs: dict[str, Waiting] = {}
        """Those that are in no line yet, because others are being read."""
        self._untold: set[str] = set()
        """Those that are being claimed here, and that the other servers do not know."""

    def add(self, jobs: Iterable[Waiting]) -> None:
        self._jobs |= {job.id: job for job in jobs}

    def discard(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def take(self, count: int) -> list[Waiting]:
        """Take the oldest jobs, at most this many."""
        return [self._jobs.pop(job_id) for job_id in list(islice(self._jobs, count))]

    def tell(self, jobs: Iterable[Waiting], claimed: Container[str] = ()) -> None:
        """Tell the other servers of these jobs, except of those that are being claimed here."""
        for job in jobs:
            if job.id in claimed:
                self._untold.add(job.id)
            else:
                self._db.wake_others("queue", job.id)

    def decided(self, job_id: str, *, is_claimed: bool) -> None:
        """Note that the claim of a job is decided. If it was refused, the other servers are told of the job now."""
        if job_id in self._untold:
            self._untold.discard(job_id)
            if not is_claimed:
                self._db.wake_others("queue", job_id)


class Freshness:
    """Tells whether the scheduler's view has everything that this server was told of the queue."""

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
