"""Writes what an attempt reports: its steps and lines, in order and bounded, and only while the attempt has the job."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from msgspec.structs import replace

from terracrew.api.fleet_jobs import (
    MAX_LINES_PER_ATTEMPT,
    MAX_NAME_CHARACTERS,
    MAX_STEPS_PER_ATTEMPT,
    FleetJob,
    FleetLine,
    FleetStep,
    plain_text,
)
from terracrew.errors import Superseded
from terracrew.fleet.messages import LinePrinted, StepBegun, StepDone, WorkEvent
from terracrew.server.db.seam import Database, Tx
from terracrew.server.fleet_jobs import decide, store
from terracrew.server.secrets.credentials import ANYWHERE

T = TypeVar("T")
FULL = f"This log has {MAX_LINES_PER_ATTEMPT:,} lines, and no further ones are kept."


class AttemptLog:
    """What an attempt has reported. Memory holds what is not stored yet; a failed write is repeated with the same numbers."""

    def __init__(self, db: Database, job: FleetJob, server_id: str, later: Sequence[tuple[str, str]] = ()) -> None:
        self._db, self.job, self._server_id = db, job, server_id
        self._steps = {
            name: FleetStep(
                job_id=job.id, attempt=job.attempt, name=name, position=MAX_STEPS_PER_ATTEMPT + place, words=words
            )
            for place, (name, words) in enumerate(later)
        }
        self._changed = set(self._steps)
        self._lines: list[FleetLine] = []
        self._last_line = 0
        self._turn = asyncio.Lock()

    @property
    def has_more(self) -> bool:
        """Whether something is not stored yet."""
        return bool(self._changed or self._lines)

    def take(self, event: WorkEvent, at: datetime | None = None) -> None:
        """Remember an event. What is too long is cut, and what is too much is left out."""
        at = at or datetime.now(UTC)
        if isinstance(event, LinePrinted):
            self._add_line(event.text, at)
            return
        name = plain_text(event.step, MAX_NAME_CHARACTERS)
        known = self._steps.get(name)
        if isinstance(event, StepBegun):
            if known is None and len(self._steps) >= MAX_STEPS_PER_ATTEMPT:
                return
            words = _shown(event.words)
            if known is None or known.status == "pending":
                position = known.position if known else len(self._steps)
                self._put(replace(self._new(name, position), words=words, status="running", started_at=at))
            elif known.status == "running" and known.words != words:
                self._put(replace(known, words=words))
            else:
                return
            self._add_line(words, at)
            return
        if known is None or known.status not in ("running", "pending"):
            return
        known = replace(known, started_at=known.started_at or at, finished_at=at)
        detail = _shown(event.words)
        if isinstance(event, StepDone):
            reference = _shown(event.reference)
            self._put(replace(known, status="done", reference=reference, detail=detail))
            self._add_line(
                ": ".join(filter(None, [known.words, detail or "done"])) + (f" ({reference})" if reference else ""), at
            )
        else:
            remedy = _shown(event.remedy)
            self._put(replace(known, status="failed", detail=detail, remedy=remedy))
            self._add_line(f"{known.words}: failed: {detail}" + (f". {remedy}" if remedy else ""), at)

    def describe(self, name: str, words: str, reference: str = "") -> None:
        """Change what a running step says it does."""
        if (known := self._steps.get(name)) and known.status == "running":
            self._put(replace(known, detail=_shown(words), reference=_shown(reference) or known.reference))

    async def flush(self) -> None:
        """Store what has come. Raises Superseded if the attempt does not have the job any more."""
        if self.has_more:
            await self.write(_nothing)

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Store what has come together with a unit of work, if the attempt still has the job."""
        async with self._turn:
            return await self._write(work)

    async def _write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        steps = [self._steps[name] for name in self._changed]
        lines = list(self._lines)

        async def fenced(tx: Tx) -> T:
            before = await store.hold(tx, self.job.id)
            if not decide.is_owner(before, self.job.attempt, self._server_id):
                raise Superseded(f"attempt {self.job.attempt} does not have fleet job {before.number} any more")
            begun = decide.begin(before, self.job.attempt, self._server_id, tx.moment)
            if begun is not None:
                await store.save(tx, before, begun)
            await store.put_steps(tx, steps)
            if lines:
                await store.add_lines(tx, self.job.id, lines)
            if steps:
                tx.wake("fleet", self.job.id)
            return await work(tx)

        found = await self._db.write(fenced)
        self._changed -= {each.name for each in steps if self._steps[each.name] == each}
        del self._lines[: len(lines)]
        return found

    def _new(self, name: str, position: int) -> FleetStep:
        return FleetStep(job_id=self.job.id, attempt=self.job.attempt, name=name, position=position, words="")

    def _put(self, step: FleetStep) -> None:
        self._steps[step.name] = step
        self._changed.add(step.name)

    def _add_line(self, text: str, at: datetime) -> None:
        if self._last_line >= MAX_LINES_PER_ATTEMPT:
            return
        self._last_line += 1
        text = FULL if self._last_line == MAX_LINES_PER_ATTEMPT else _shown(text)
        self._lines.append(FleetLine(self.job.attempt, self._last_line, at, text))


def _shown(text: str) -> str:
    """Return a text without our own credentials, in case that a cloud repeats one."""
    return ANYWHERE.sub("(secret)", plain_text(text))


async def _nothing(tx: Tx) -> None:
    del tx
