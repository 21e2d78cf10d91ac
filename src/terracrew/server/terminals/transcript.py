"""The log of a run as a command line reads it: bytes from any offset on, which never change once they were read.

It has a start and an end mark, and between them for each attempt what the run waited for, followed by the lines of the attempt. A run
whose plan nobody confirms at the prompt has one job, whose log is divided where the change begins, or where its plan began to wait
for approvals: what comes before is the log of the plan, and what follows is that of the apply.

Every server assembles the same bytes. What it has assembled is remembered as places in the stored log, not as text: a reader that
goes on from any offset costs one page of the log.

An attempt that has ended can still deliver lines. The first server that reads its log after that records the last event that belongs
to it, and, if the job has ended, the words at the end of the log. No server reads beyond that.
"""

import asyncio
import time
from bisect import bisect_right
from collections import OrderedDict
from dataclasses import dataclass, field, replace

from terracrew.api.jobs import Attempt, Job, JobStatus
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import attempt_store
from terracrew.server.jobs import store as job_store
from terracrew.server.logs import chunks, reads
from terracrew.server.objects import Objects
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons
from terracrew.server.terminals import statuses, store, words
from terracrew.server.terminals.model import Phase, TerminalWords

START, END = b"\x02", b"\x03"
MAX_READ_BYTES = 64 << 10
MAX_KEPT = 2_000
"""How many logs a server remembers places of. Another one is assembled again, which reads it once."""
ASK_SECONDS = 1.0
"""The least time between two questions why the same job waits."""
MAX_REMEMBERED_BYTES = 16 << 20
"""How much text a server remembers. A client asks for a few KB at a time, and a chunk of a log can have megabytes."""
MAX_WORDS_CHARACTERS = 16_000
"""How much a log says about one wait: a reason can change as long as the wait takes."""
EVERY_VIEWER = Principal("user", "", "every viewer of a job", None)
"""Reads reasons for a log, which all viewers of a job share. It has no role: modules and runners are named only to some of them."""
GONE = b"This part of the log is not stored any more.\n"


@dataclass(frozen=True)
class _Piece:
    """A part of a log: either bytes, or the events of a chunk after `after` up to `last`."""

    start: int
    size: int
    data: bytes = b""
    attempt: int = 0
    after: int = 0
    last: int = 0

    def is_lines_of(self, attempt: int) -> bool:
        return not self.data and self.attempt == attempt


@dataclass
class _Transcript:
    job_id: str
    phase: Phase
    is_divided: bool
    """Whether the job both plans and applies, so that its log is divided."""
    attempt: int = 1
    event: int = 0
    """The last event of the attempt that was taken over."""
    said: int = 0
    """How many characters of the words before the attempt were taken over."""
    is_in_lines: bool = False
    """Whether the lines of the attempt are being read, so that its words are closed."""
    is_complete: bool = False
    boundary: tuple[int, int] | None = None
    """Where the change begins: an attempt, and the last event before it."""
    size: int = 0
    pieces: list[_Piece] = field(default_factory=list[_Piece])
    asked_at: float = float("-inf")
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def add(self, data: bytes) -> None:
        if data:
            self.pieces.append(_Piece(self.size, len(data), data))
            self.size += len(data)

    def add_events(self, size: int, last: int) -> None:
        before = self.pieces[-1] if self.pieces else None
        if size and before is not None and before.is_lines_of(self.attempt) and before.size < MAX_READ_BYTES:
            self.pieces[-1] = replace(before, size=before.size + size, last=last)
            self.size += size
        elif size:
            self.pieces.append(_Piece(self.size, size, b"", self.attempt, self.event, last))
            self.size += size
        self.event = last


class Transcripts:
    """The logs of runs that command lines read on this server."""

    def __init__(self, db: Database, objects: Objects, watch: reasons.Watch, url: str) -> None:
        self._db, self._objects, self._url = db, objects, url.rstrip("/")
        self._watch = watch.for_reader(EVERY_VIEWER)
        self._kept: OrderedDict[tuple[str, Phase], _Transcript] = OrderedDict()
        self._remembered = _Remembered()

    async def read(self, job_id: str, phase: Phase, offset: int, limit: int, *, is_divided: bool) -> bytes:
        """Return up to `limit` bytes from this offset on; nothing if there are none yet, or no more.

        `is_divided` says that the job both plans and applies, so that its log is divided between the two phases.
        """
        found = await self._advanced(job_id, phase, offset, is_divided=is_divided)
        limit = max(1, min(limit, MAX_READ_BYTES))
        at = bisect_right(found.pieces, offset, key=lambda piece: piece.start) - 1
        taken: list[bytes] = []
        while 0 <= at < len(found.pieces) and limit > 0:
            piece = found.pieces[at]
            start = max(0, offset - piece.start)
            data = (await self._data(job_id, piece))[start : start + limit]
            taken.append(data)
            limit -= len(data)
            at += 1
        return b"".join(taken)

    async def boundary(self, job_id: str) -> tuple[int, int] | None:
        """Return where the change of a job that plans and applies begins; None as long as it plans."""
        found = await self._advanced(job_id, "plan", None, is_divided=True)
        return found.boundary

    async def _advanced(self, job_id: str, phase: Phase, offset: int | None, *, is_divided: bool) -> _Transcript:
        found = self._kept.setdefault((job_id, phase), _Transcript(job_id, phase, is_divided))
        self._kept.move_to_end((job_id, phase))
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        async with found.lock:
            while not found.is_complete and (offset is None or found.size <= offset + MAX_READ_BYTES):
                if not await self._advance(found):
                    break
        return found

    async def _advance(self, log: _Transcript) -> bool:
        """Take over more of a log. Returns False if there is nothing more at the moment."""
        if not log.size and not await self._begin(log):
            return False
        job, attempt, following = await self._db.read(lambda tx: _progress(tx, log.job_id, log.attempt))
        is_over = job.is_terminal or _has_next(job, log.attempt, attempt)
        if is_over and following is None:
            await self._db.write(lambda tx: self._close(tx, log.job_id, log.attempt))
            return True
        mark = 0 if attempt is None else attempt.mark
        if following is not None:
            mark = min(mark, following.mark_before)
        if not log.is_in_lines:
            return await self._say(log, job, has_lines=mark > log.event or is_over)
        if mark > log.event:
            await self._take_lines(log, mark)
        elif following is None:
            return False
        elif _has_waited(attempt) and log.phase == "plan" and log.is_divided:
            self._divide(log)
        elif _has_next(job, log.attempt, attempt):
            log.attempt, log.event, log.said, log.is_in_lines = log.attempt + 1, 0, 0, False
        else:
            log.add(following.words.encode() + END)
            log.is_complete = True
        return True

    async def _close(self, tx: Tx, job_id: str, number: int) -> None:
        """Record what belongs to an attempt that has ended, unless another server has done so, and how the log ends if its job has.

        The attempt is locked, so that no line arrives in between that another server already shows.
        """
        held = await job_store.hold(tx, job_id, number)
        job, attempt = (await job_store.get(tx, job_id), None) if held is None else held
        before = await store.open_words(tx, job_id, number + 1, 0 if attempt is None else attempt.mark)
        if job.is_terminal and not _has_next(job, number, attempt):
            await store.add_words(tx, before, words.end(job, self._url), closes=True)

    async def _begin(self, log: _Transcript) -> bool:
        job = await self._db.read(lambda tx: job_store.get(tx, log.job_id))
        if log.phase == "apply" and log.is_divided:
            place = await self.boundary(log.job_id)
            if place is None and not job.is_terminal:
                return False
            if place is not None:
                log.attempt, log.event = place
                log.is_in_lines = True
        log.add(START + words.head(log.phase, job, self._url).encode())
        return True

    async def _say(self, log: _Transcript, job: Job, *, has_lines: bool) -> bool:
        """Take over what the run says before the lines of an attempt: first what another server has recorded, then what is new."""

        async def work(tx: Tx) -> tuple[str, bool]:
            before = await store.open_words(tx, log.job_id, log.attempt, 0)
            if before.is_closed or len(before.words) > log.said:
                return before.words, before.is_closed
            more = "" if has_lines else await self._wait(tx, job, before.words)
            if not more and not has_lines:
                return before.words, False
            if await store.add_words(tx, before, more, closes=has_lines):
                return before.words + more, has_lines
            others = await store.open_words(tx, log.job_id, log.attempt, 0)  # another server was faster
            return others.words, others.is_closed

        if not has_lines and not self._is_due(log, job):
            known = await self._db.read(lambda tx: store.words(tx, log.job_id, log.attempt))
            said, is_closed = ("", False) if known is None else (known.words, known.is_closed)
        else:
            said, is_closed = await self._db.write(work)
        is_new = len(said) > log.said
        log.add(said[log.said :].encode())
        log.said, log.is_in_lines = len(said), is_closed
        return is_new or is_closed

    def _is_due(self, log: _Transcript, job: Job) -> bool:
        now = time.monotonic()
        if now - log.asked_at < ASK_SECONDS:
            return False
        log.asked_at = now
        waits = job.status in (JobStatus.QUEUED, JobStatus.CLAIMED, JobStatus.AWAITING_APPROVAL)
        return waits and time.time() - job.queued_at.timestamp() >= words.MIN_WAIT_SECONDS

    async def _wait(self, tx: Tx, job: Job, before: str) -> str:
        """Return what has to be said about the wait of a job, if it was not said last."""
        if len(before) >= MAX_WORDS_CHARACTERS:
            return ""
        reason = await reasons.why(tx, job, self._watch)
        more = "" if reason is None else words.of_wait(reason, job, self._url)
        return "" if before.endswith(more) else more

    async def _take_lines(self, log: _Transcript, mark: int) -> None:
        """Take over some of the lines of an attempt up to this event."""
        page = await reads.read_page(self._db, self._objects, log.job_id, log.attempt, log.event, MAX_READ_BYTES)
        ends_with_plan = log.phase == "plan" and log.is_divided
        for stored in page:
            size = last = 0
            for number, record in await stored.open(lambda data: list(chunks.records(data))):
                if not log.event < number <= mark:
                    continue
                if ends_with_plan and statuses.is_changing_step(record.step):
                    log.add_events(size, last or log.event)
                    self._divide(log)
                    return
                size, last = size + len(record.payload), number
            log.add_events(size, max(min(stored.last, mark), log.event))
        if not page:
            log.event = mark  # the events up to there are no lines

    def _divide(self, log: _Transcript) -> None:
        log.boundary = (log.attempt, log.event)
        log.add(END)
        log.is_complete = True

    async def _data(self, job_id: str, piece: _Piece) -> bytes:
        if piece.data:
            return piece.data
        key = (job_id, piece.attempt, piece.after, piece.last)
        known = self._remembered.get(key)
        if known is None:
            known = _of_size(await self._read(job_id, piece), piece.size)
            self._remembered.put(key, known)
        return known

    async def _read(self, job_id: str, piece: _Piece) -> bytes:
        found: list[bytes] = []
        after = piece.after
        while after < piece.last and (
            page := await reads.read_page(self._db, self._objects, job_id, piece.attempt, after, 1)
        ):
            for stored in page:
                records = await stored.open(lambda data: list(chunks.records(data)))
                found += [record.payload for number, record in records if piece.after < number <= piece.last]
            after = page[-1].last
        return b"".join(found)


class _Remembered:
    """The texts of the pieces that were read last: job, attempt, and the events after the first number up to the second."""

    def __init__(self) -> None:
        self._texts: OrderedDict[tuple[str, int, int, int], bytes] = OrderedDict()
        self._size = 0

    def get(self, key: tuple[str, int, int, int]) -> bytes | None:
        if key in self._texts:
            self._texts.move_to_end(key)
        return self._texts.get(key)

    def put(self, key: tuple[str, int, int, int], text: bytes) -> None:
        self._size += len(text) - len(self._texts.pop(key, b""))
        self._texts[key] = text
        while self._size > MAX_REMEMBERED_BYTES:
            self._size -= len(self._texts.popitem(last=False)[1])


def _of_size(text: bytes, size: int) -> bytes:
    """Return the text of a piece; what retention has removed is replaced by as many bytes, so that what follows keeps its place."""
    return text if len(text) == size else GONE[:size].rjust(size)


def _has_waited(attempt: Attempt | None) -> bool:
    return attempt is not None and attempt.outcome == "waiting"


def _has_next(job: Job, number: int, attempt: Attempt | None) -> bool:
    """Return whether the log goes on after this attempt, with what the job waits for."""
    return job.attempt > number or _has_waited(attempt)


async def _progress(tx: Tx, job_id: str, attempt: int) -> tuple[Job, Attempt | None, TerminalWords | None]:
    """Return the job, one of its attempts, and what stands behind its lines, if it is recorded that it has ended.

    The job is read first, so that all lines of an attempt that has ended are stored.
    """
    return (
        await job_store.get(tx, job_id),
        await attempt_store.get_attempt(tx, job_id, attempt),
        await store.words(tx, job_id, attempt + 1),
    )
