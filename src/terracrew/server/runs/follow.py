"""Follows a job live, from the last event that the viewer has to the end of the job. It subscribes first, and then reads."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from typing import Literal

import msgspec

from terracrew.api.job_views import LogEvent
from terracrew.errors import Unavailable
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx, Wakeups
from terracrew.server.db.topics import log_of
from terracrew.server.logs.reads import LogProgress
from terracrew.server.logs.tail import Cursor, Position, TailBatch, Tails
from terracrew.server.objects import Objects
from terracrew.server.runs import log
from terracrew.server.runs import summary as job_run

QUIET_SECONDS = 15.0
RECHECK_SECONDS, SIGN_OF_LIFE_SECONDS = 0.2, 2.0
"""While the database is unavailable: how long a stream waits between two checks, and between two messages that keep it open."""

MAX_LATE_ATTEMPTS = 4
"""How many lost attempts are followed beside the current one."""

News = TailBatch | Literal["changed", "quiet", "end"]
"""A batch is more of the log. `changed`: the job has changed. `quiet`: nothing has happened for a while. `end`: the job may have
changed, and nothing more follows."""


class Watchers:
    """Tracks who watches which job. While somebody does, the job's executor sends its log at once."""

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


class FollowedBatch(TailBatch, frozen=True, kw_only=True):
    """More of the log, and how far the viewer is with it."""

    cursor: Cursor


async def follow(
    db: Database,
    watchers: Watchers,
    closing: asyncio.Event,
    job_id: str,
    place: Position | Cursor,
    one_attempt: bool = False,
) -> AsyncGenerator[News]:
    """Yield what happens to a job and its log after this place, with a "changed" at the start.

    When the job is requeued, this continues with the next attempt, with a line between them, unless `one_attempt` is set. It
    also yields what a lost attempt delivers later. When the server stops, it ends without "end", and the viewer reconnects to
    this server or another one.
    """
    cursor = Cursor(place) if isinstance(place, Position) else place
    stopping = asyncio.create_task(closing.wait())
    stopping.add_done_callback(lambda done: done.cancelled() or db.wake_here(log_of(job_id), ""))
    try:
        with db.listen(log_of(job_id), "jobs") as wakeups, watchers.watching(job_id):
            yield "changed"
            is_changed, said_at = False, time.monotonic()
            while not closing.is_set():
                try:
                    found = await _next(db, watchers.tails, job_id, cursor, one_attempt)
                except Unavailable:
                    is_back = await _returned(db, stopping)
                    # The object store may be what is away, and nothing says when it is back.
                    if not is_back or time.monotonic() - said_at >= SIGN_OF_LIFE_SECONDS:
                        said_at = time.monotonic()
                        yield "quiet"
                    continue
                if isinstance(found, FollowedBatch):
                    cursor, is_all = found.cursor, found.progress is not None
                    yield found
                elif found.is_terminal or found.attempt > cursor.main.attempt:
                    yield "end"
                    return
                else:
                    is_all = True
                if is_changed:  # reported after the output that was printed before the change
                    yield "changed"
                is_changed = False
                if is_all:
                    woken = await _woken(wakeups, job_id)
                    is_changed = "jobs" in woken
                    if not woken:
                        yield "quiet"
    finally:
        stopping.cancel()


async def _next(
    db: Database, tails: Tails, job_id: str, cursor: Cursor, one_attempt: bool
) -> FollowedBatch | LogProgress:
    """Return what follows the cursor. If nothing follows yet, return the progress of the job."""
    while True:
        main, late = cursor.main, cursor.late
        found = await tails.next(db, job_id, main)
        if isinstance(found, TailBatch):
            is_open = found.progress is not None and _is_open(found.progress, main.attempt) and not late
            return FollowedBatch(
                found.position, found.data, found.progress if is_open else None, cursor=Cursor(found.position, late)
            )
        for at, each in enumerate(late):
            more = await tails.next(db, job_id, each)
            if isinstance(more, TailBatch):
                return FollowedBatch(
                    more.position, more.data, cursor=Cursor(main, (*late[:at], more.position, *late[at + 1 :]))
                )
        is_passed = found.attempt > main.attempt
        is_decided = found.is_terminal and found.has_plan and found.attempt == main.attempt
        if one_attempt or not (is_passed or is_decided):  # at the end of a job, only the decision about a plan is told
            return found
        line, is_late = await db.read(lambda tx, main=main: _after(tx, job_id, main.attempt))
        if line is None and not is_passed:
            return found
        open_ends = (*late, main)[-MAX_LATE_ATTEMPTS:] if is_late else late
        cursor = Cursor(Position(main.attempt + 1, 0), open_ends)
        if line is not None:
            return FollowedBatch(cursor.main, msgspec.json.encode([line]), cursor=cursor)


def _is_open(progress: LogProgress, attempt: int) -> bool:
    """Return whether more can only come from this attempt of the job."""
    return progress.attempt == attempt and not progress.is_terminal


async def _after(tx: Tx, job_id: str, number: int) -> tuple[LogEvent | None, bool]:
    return await log.after(tx, job_id, number), await job_run.may_deliver_late(tx, job_id, number)


async def _woken(wakeups: Wakeups, job_id: str) -> set[str]:
    """Return the topics of wake-ups that concern the job; empty after a timeout."""
    try:
        async with asyncio.timeout(QUIET_SECONDS):
            return await _concerning(wakeups, job_id)
    except TimeoutError:
        return set()


async def _returned(db: Database, stopping: "asyncio.Task[bool]") -> bool:
    """Wait for the database and return whether it is back. The wait is short, because the stream may end meanwhile."""
    await asyncio.wait({stopping}, timeout=RECHECK_SECONDS)
    return await db.ready(SIGN_OF_LIFE_SECONDS)


async def _concerning(wakeups: Wakeups, job_id: str) -> set[str]:
    while True:
        if topics := {topic for topic, key in await wakeups.get() if key in ("", job_id)}:
            return topics
