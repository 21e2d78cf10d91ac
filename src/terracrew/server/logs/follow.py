"""Following a job live: subscribe first, then read, from the last event that the viewer has to the end of the job."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Literal

from terracrew.errors import Unavailable
from terracrew.server.db.seam import Database, Wakeups
from terracrew.server.hub.registry import Registry
from terracrew.server.logs.tail import Batch, Position, Tails
from terracrew.server.objects import Objects

QUIET = 15.0
PAUSE, OUTAGE = 0.2, 2.0
"""Seconds before a database that was away is asked again, and between signs of life while it is."""

News = Batch | Literal["changed", "quiet", "end"]
"""More of the log; something about the job has changed; nothing has happened for a while; nothing more will come."""


class Watchers:
    """Who watches which job: while anybody does, its executor ships at once."""

    def __init__(self, registry: Registry, objects: Objects) -> None:
        self._registry = registry
        self._counts: Counter[str] = Counter()
        self.tails = Tails(objects)

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
    db: Database, watchers: Watchers, closing: asyncio.Event, job_id: str, position: Position, one_attempt: bool = False
) -> AsyncGenerator[News]:
    """What happens to a job and its log from here on, with a "changed" at the start and before the "end".

    Goes on to the next attempt when the job is requeued, unless it is to follow one attempt only. Ends without "end"
    when the server stops: the viewer comes again, here or to another server.
    """
    stopping = asyncio.create_task(closing.wait())
    try:
        with db.listen(f"log:{job_id}", "jobs") as wakeups, watchers.watching(job_id):
            yield "changed"
            is_changed = False
            while not closing.is_set():
                try:
                    found = await watchers.tails.next(db, job_id, position)
                except Unavailable:
                    if not await _returned(db, stopping):
                        yield "quiet"
                    continue
                if isinstance(found, Batch):
                    position = found.position
                    yield found
                elif found.attempt > position.attempt and not one_attempt:
                    position = Position(position.attempt + 1, 0)
                elif found.is_terminal or found.attempt > position.attempt:
                    yield "changed"
                    yield "end"
                    return
                elif not is_changed:
                    woken = await _woken(wakeups, job_id, stopping)
                    is_changed = "jobs" in woken
                    if not woken:
                        yield "quiet"
                    continue
                if is_changed:  # told after what was printed before it
                    yield "changed"
                    is_changed = False
    finally:
        stopping.cancel()


async def _woken(wakeups: Wakeups, job_id: str, stopping: "asyncio.Task[bool]") -> set[str]:
    """The topics that have come and concern the job; none when the time is up or the server stops."""
    coming = asyncio.create_task(_concerning(wakeups, job_id))
    try:
        await asyncio.wait({coming, stopping}, timeout=QUIET, return_when=asyncio.FIRST_COMPLETED)
        return coming.result() if coming.done() else set()
    finally:
        coming.cancel()


async def _returned(db: Database, stopping: "asyncio.Task[bool]") -> bool:
    """Whether the database is back: a stream that is open outlasts it. Looked at again soon, since the stream may be left."""
    await asyncio.wait({stopping}, timeout=PAUSE)
    return await db.ready(OUTAGE)


async def _concerning(wakeups: Wakeups, job_id: str) -> set[str]:
    while True:
        if topics := {topic for topic, key in await wakeups.get() if key in ("", job_id)}:
            return topics
