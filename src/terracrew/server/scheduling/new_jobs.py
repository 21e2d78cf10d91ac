"""The jobs that this server has just created: its scheduler need not read them, and the other servers are told of them later.

If each server claimed every new job for its own runners, all claims of a job but one would be refused. So the other servers are told
of a job if nobody here can take it, or when its claim here was refused. If this server stops before, their sweeps find the job.
"""

from collections.abc import Container, Iterable
from itertools import islice

from terracrew.server.db.seam import Database
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
