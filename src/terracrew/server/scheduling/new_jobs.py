"""The jobs that this server has just created: its scheduler need not read them, and the other servers are told of them later.

If each server offered every new job to its own runners, all claims of a job but one would be refused. So the server that created it
offers it first. If it stops in this time, the sweeps of the other servers find the job.
"""

import asyncio
from collections.abc import Callable, Container, Iterable
from itertools import islice

from terracrew.server.db.seam import Database
from terracrew.server.scheduling.queue import Waiting

HEAD_START_SECONDS = 0.05
"""How long only the server that created a job offers it."""


class NewJobs:
    def __init__(self, db: Database, is_waiting: Callable[[str], bool]) -> None:
        """`is_waiting` says whether a job waits, as far as this server knows."""
        self._db, self._is_waiting = db, is_waiting
        self._jobs: dict[str, Waiting] = {}
        """Those that are in no line yet, because others are being read."""

    def add(self, jobs: Iterable[Waiting]) -> None:
        self._jobs |= {job.id: job for job in jobs}

    def discard(self, job_id: str) -> None:
        self._jobs.pop(job_id, None)

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def take(self, count: int) -> list[Waiting]:
        """Take the oldest jobs, at most this many."""
        return [self._jobs.pop(job_id) for job_id in list(islice(self._jobs, count))]

    def tell(self, jobs: Iterable[Waiting], offered: Container[str] = ()) -> None:
        """Tell the other servers of these jobs: later of those that are offered here, if they still wait then."""
        here: list[str] = []
        for job in jobs:
            if job.id in offered:
                here.append(job.id)
            else:
                self._db.wake_others("queue", job.id)
        if here:
            asyncio.get_running_loop().call_later(HEAD_START_SECONDS, self._tell_later, here)

    def _tell_later(self, job_ids: Iterable[str]) -> None:
        for job_id in filter(self._is_waiting, job_ids):
            self._db.wake_others("queue", job_id)
