"""Searches the log of a job, or of one attempt, a bounded time for each request: what is left is the next page.

Nothing is indexed: chunks are decompressed and searched in threads, a few at once on a server, and one for each person. The invariant:

> A page has every hit between the place that it began at and the place that it says, and no hit twice.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

import msgspec

from terracrew.api.job_views import LogEvent, LogFound, LogHit
from terracrew.errors import Invalid, Unavailable
from terracrew.server.db.seam import Database, Tx
from terracrew.server.logs import reads
from terracrew.server.logs.patterns import Pattern, plain
from terracrew.server.logs.reads import AttemptExtent, Stored
from terracrew.server.logs.scan import LogQuery, Scan
from terracrew.server.logs.tail import Position
from terracrew.server.objects import Objects
from terracrew.server.runs import log

MAX_SEARCHES = 2
"""How many threads search at once. Most of their time is spent without Python's lock, so they take turns with nothing else."""
MAX_WAIT_SECONDS = 10.0
RETRY_AFTER_SECONDS = 2.0
PAGE_SECONDS = 1.0
"""How long a page is searched for, if nothing is found."""
FIRST_HITS_SECONDS = 0.1
"""How long a page is searched for, once something was found."""
READ_BYTES = 4 << 20
"""How much of a log is read at once, while the part before it is searched."""
MAX_CONTEXT_EVENTS = 64
"""How many events before a page are read for the lines around its first hit. Twenty lines are in fewer, unless they are long."""
_PLACE = re.compile(r"([0-9]{1,9})\.([0-9]{1,15})")
"""More digits are in no log, and databases do not take them."""
T = TypeVar("T")


class LogSearches:
    """The searches that run on this server."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(MAX_SEARCHES)
        self._turns_of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()
        self.threads = ThreadPoolExecutor(MAX_SEARCHES, thread_name_prefix="log search")

    @asynccontextmanager
    async def turn(self, who: str) -> AsyncGenerator[None]:
        """Wait for a turn and keep it. Of one person, one search runs at a time."""
        own = self._turns_of.get(who)
        if own is None:
            own = self._turns_of[who] = asyncio.Semaphore(1)
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                await own.acquire()
                try:
                    await self._turns.acquire()
                except BaseException:
                    own.release()
                    raise
        except TimeoutError:
            raise Unavailable(
                "too many logs are being searched at this moment; try again in a few seconds",
                retry_after=RETRY_AFTER_SECONDS,
            ) from None
        try:
            yield
        finally:
            self._turns.release()
            own.release()


class _Run(msgspec.Struct, frozen=True):
    """The attempts of a job, and how many lines the logs before each have, with the lines between them."""

    attempts: list[AttemptExtent]
    lines_before: list[int]
    betweens: list[LogEvent | None]
    """What is said before the log of each attempt."""
    lines: int
    is_live: bool


class _Page:
    """The work on one page."""

    def __init__(
        self, db: Database, objects: Objects, threads: ThreadPoolExecutor, query: LogQuery, limit: int
    ) -> None:
        self._db, self._objects, self._threads = db, objects, threads
        self._query, self._limit = query, limit
        self._pattern = Pattern("")
        self._began = time.monotonic()
        self.hits: list[LogHit] = []

    async def compile(self) -> None:
        self._pattern = await self._in_thread(self._query.pattern)

    @property
    def is_over(self) -> bool:
        return len(self.hits) >= self._limit or time.monotonic() >= self._until

    @property
    def _until(self) -> float:
        return self._began + (FIRST_HITS_SECONDS if self.hits else PAGE_SECONDS)

    async def search(self, job_id: str, extent: AttemptExtent, line: int, run_line: int) -> tuple[int, bool]:
        """Search an attempt from this line on. Return the line that is next, and whether the end was reached."""
        scan = Scan(self._query, self._pattern, extent.attempt, line, self._limit - len(self.hits), run_line)
        found_before = len(self.hits)
        async with aclosing(self._pages(job_id, extent, line)) as pages:
            async for stored in pages:
                is_done = await self._in_thread(lambda stored=stored: scan.feed(stored, self._until))
                self.hits[found_before:] = scan.hits
                if not is_done:
                    return scan.next_line, False
        await self._in_thread(lambda: scan.finish(has_open_line=extent.is_live))
        self.hits[found_before:] = scan.hits
        return scan.next_line, not scan.is_full

    def look_between(self, event: LogEvent, run_line: int) -> None:
        """Search the line between two attempts."""
        text = plain(event.text.rstrip("\n").encode())
        found = self._pattern.find(text, 0, len(text))
        if found is None or not self._query.only.has_between(event.time):
            return
        shown = text.decode(errors="replace")
        places = [(len(text[: found[0]].decode()), len(text[: found[1]].decode()))] if found[1] > found[0] else []
        hit = LogHit(event.attempt, 0, run_line, 0, event.time, event.step, event.stream, shown, places)
        self.hits.append(hit)

    async def _pages(self, job_id: str, extent: AttemptExtent, line: int) -> AsyncGenerator[list[Stored]]:
        """Yield consecutive parts of the log. The next one is read while this one is searched."""
        after = await self._db.read(lambda tx: self._start(tx, job_id, extent, line))
        reading = asyncio.ensure_future(self._read(job_id, extent, after))
        try:
            while stored := await reading:
                after = stored[-1].last
                reading = asyncio.ensure_future(self._read(job_id, extent, after))
                yield stored
        finally:
            reading.cancel()

    async def _start(self, tx: Tx, job_id: str, extent: AttemptExtent, line: int) -> int:
        after, _ = await reads.before_line(tx, job_id, extent, line)
        if self._query.context and line:
            around, _ = await reads.before_line(tx, job_id, extent, max(0, line - self._query.context))
            after = max(around, after - MAX_CONTEXT_EVENTS)
        return max(after, await reads.before_time(tx, job_id, extent, self._query.only.since))

    async def _read(self, job_id: str, extent: AttemptExtent, after: int) -> list[Stored]:
        return await reads.read_page(self._db, self._objects, job_id, extent.attempt, after, READ_BYTES)

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


async def search(
    db: Database,
    objects: Objects,
    searches: LogSearches,
    job_id: str,
    query: LogQuery,
    place: Position,
    limit: int,
    *,
    attempt: int | None = None,
) -> LogFound:
    """Return the next hits after this place, whose `event` is a line."""
    page = _Page(db, objects, searches.threads, query, limit)
    await page.compile()
    run = await db.read(lambda tx: _run(tx, job_id, attempt))
    number, line = place.attempt, place.event
    is_end = True
    for at, extent in enumerate(run.attempts):
        if extent.attempt < number:
            continue
        if extent.attempt > number:
            number, line = extent.attempt, 0
            if (event := run.betweens[at]) is not None:
                page.look_between(event, run.lines_before[at])
        line, is_end = await page.search(job_id, extent, line, run.lines_before[at])
        if not is_end:
            break
        if page.is_over and at + 1 < len(run.attempts):
            is_end = False
            break
    before = next((b for e, b in zip(run.attempts, run.lines_before, strict=True) if e.attempt == number), 0)
    return LogFound(page.hits, f"{number}.{line}", is_end, run.is_live, min(before + line, run.lines), run.lines)


async def _run(tx: Tx, job_id: str, attempt: int | None) -> _Run:
    progress = await reads.progress(tx, job_id)
    extents = await reads.extents(tx, job_id)
    before: list[int] = []
    betweens: list[LogEvent | None] = []
    total = 0
    for extent in extents:
        event = await log.after(tx, job_id, extent.attempt - 1) if extent.attempt > 1 else None
        total += event is not None
        before.append(total)
        betweens.append(event if attempt is None else None)
        total += extent.lines
    if attempt is None:
        return _Run(extents, before, betweens, total, not progress.is_terminal)
    chosen = [at for at, each in enumerate(extents) if each.attempt == attempt]
    own = [extents[at] for at in chosen]
    lines = sum(each.lines for each in own)
    return _Run(own, [before[at] for at in chosen], [None], before[chosen[0]] + lines if chosen else 0, own[0].is_live)


def start(after: str, attempt: int | None) -> Position:
    """Return the place of `<attempt>.<line>`, after which a page begins."""
    if not after:
        return Position(attempt or 1, 0)
    place = _PLACE.fullmatch(after)
    if place is None:
        raise Invalid.in_field(
            "after", f"{after[:50]!r} is not a place in this log: give <attempt>.<line>, for example 2.17"
        )
    if attempt is not None and int(place[1]) != attempt:
        raise Invalid.in_field("after", f"{after!r} is not a place in the log of attempt {attempt}")
    return Position(int(place[1]), int(place[2]))
