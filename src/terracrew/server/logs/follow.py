"""Following a job live: subscribe first, then read, from the last event that the viewer has to the end of the job."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Literal

from terracrew.server.db.seam import Database, Wakeups
from terracrew.server.hub.registry import Registry
from terracrew.server.logs.tail import Batch, Position, Tails

QUIET = 15.0

News = Batch | Literal["changed", "quiet", "end"]
"""More of the log; something about the job has changed; nothing has happened for a while; nothing more will come."""


class Watchers:
    """Who watches which job: while anybody does, its executor ships at once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._counts: Counter[str] = Counter()
        self.tails = Tails()

    def is_watched(self, job_id: str) -> bool:
        return job_id in self._counts

    @contextmanager
    def watching(self, job_id: str) -> Generator[None]:
        self._counts[job_id] += 1
        if self._counts[job_id] == 1:
            self._tell(job_id, is_watched=True)
        try:
            yield
        finally:
            self._counts[job_id] -= 1
            if not self._counts[job_id]:
                del self._counts[job_id]
                self._tell(job_id, is_watched=False)
            if not self._counts:
                self.tails.clear()

    def _tell(self, job_id: str, *, is_watched: bool) -> None:
        for ref, session in self._registry.executors.items():
            if ref.job_id == job_id:
                session.watch(is_watched)


async def follow(
    db: Database, watchers: Watchers, closing: asyncio.Event, job_id: str, position: Position, *, one_attempt: bool = False
) -> AsyncGenerator[News]:
    """What happens to a job and its log, beginning with "changed", so that a viewer starts with the job as it is.

    Goes on to the next attempt when the job is requeued, unless it is to follow one attempt only. Ends without "end" when
    the server stops: the viewer comes again, here or to another server.
    """
    is_changed = True
    stopping = asyncio.create_task(closing.wait())
    with db.listen(f"log:{job_id}", "jobs") as wakeups, watchers.watching(job_id):
        try:
            while not closing.is_set():
                found = await watchers.tails.next(db, job_id, position)
                if isinstance(found, Batch):
                    position = found.position
                    yield found
                    continue
                if is_changed:
                    yield "changed"
                is_left = found.attempt > position.attempt
                if found.is_terminal if not is_left else one_attempt:
                    yield "end"
                    return
                if is_left:
                    position = Position(position.attempt + 1, 0)
                    is_changed = False
                    continue
                woken = await _woken(wakeups, job_id, stopping)
                if not woken:
                    yield "quiet"
                is_changed = "jobs" in woken
        finally:
            stopping.cancel()


async def _woken(wakeups: Wakeups, job_id: str, stopping: "asyncio.Task[bool]") -> set[str]:
    """The topics that concern the job and have come; none when the time is up or the server stops."""
    deadline = asyncio.get_running_loop().time() + QUIET
    while (left := deadline - asyncio.get_running_loop().time()) > 0:
        coming = asyncio.create_task(wakeups.get(timeout=left))
        try:
            await asyncio.wait({coming, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                return set()
            topics = {topic for topic, key in await coming if key in ("", job_id)}
        finally:
            coming.cancel()
        if topics:
            return topics
    return set()
