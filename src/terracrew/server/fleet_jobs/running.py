"""One attempt of a fleet job on this server: the part of the fleet process, the server's own part, and the end."""

import asyncio
import contextlib
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeVar

from terracrew.api.fleet_jobs import MAX_TEXT_CHARACTERS, FleetJob, FleetOutcome
from terracrew.clouds.contract import Canceled, CloudRefused
from terracrew.errors import Superseded, TerracrewError, Unavailable
from terracrew.fleet.messages import (
    FleetWork,
    LinePrinted,
    RunJob,
    StepBegun,
    StepDone,
    StepFailed,
    WorkEnded,
    WorkEvent,
)
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.fleet_jobs import decide, metrics, store
from terracrew.server.fleet_jobs.handlers import FleetGrant, FleetHandler
from terracrew.server.fleet_jobs.writing import AttemptLog
from terracrew.server.fleet_process.link import FleetLost

T = TypeVar("T")
FLUSH_SECONDS = 0.2
RETRY_SECONDS = 1.0
MAX_WORK_SECONDS = 3600.0
"""How long the process may take for the work of an attempt. Clouds bound each of their waits, so longer means that it hangs."""
MAX_UNWIND_SECONDS = 600.0
"""How long an attempt may take to end after a cancel, before it is cut off."""
MAX_FACTS = 100
log = get_logger("terracrew.fleet")


class FleetRunner(Protocol):
    """The fleet process, as far as jobs need it; `fleet_process.link.FleetLink` is it."""

    async def run(self, job: RunJob, take: Callable[[WorkEvent], None]) -> WorkEnded: ...

    def cancel(self, job_id: str, attempt: int) -> None: ...

    def abort(self, job_id: str, attempt: int) -> None: ...

    def keep_running(self) -> None: ...


class AttemptRun:
    """Its tasks end by themselves: with the end of the job, or with the loss of the attempt."""

    def __init__(
        self,
        db: Database,
        runner: FleetRunner,
        server_id: str,
        job: FleetJob,
        grant: FleetGrant | None,
        handler: FleetHandler,
    ) -> None:
        self._db, self._runner, self._server_id = db, runner, server_id
        self.job, self._grant, self._handler = job, grant, handler
        self._log = AttemptLog(db, job, server_id, () if job.is_unwinding else handler.later_steps)
        self._arrived = asyncio.Event()
        self.canceled = asyncio.Event()
        """Set when a person has canceled the job while it runs here."""
        self._canceled_at = math.inf
        self._is_process_at_work = False
        """Whether the process does the work of the grant, which a cancel ends. What is removed after a cancel is not canceled."""

    async def run(self) -> None:
        """Run the attempt to its end. Returns also if the attempt was lost; what was reported then changes nothing."""
        flushing = asyncio.create_task(self._flush_regularly())
        try:
            outcome, error, facts = await self._work()
            await self._until_stored(lambda tx: self._end(tx, outcome, error, facts))
        except FleetLost as loss:
            reason = loss.message
            await self._until_stored(lambda tx: self._lose(tx, reason))
        except Superseded:
            log.info("this server has lost an attempt of a fleet job", job=self.job.id)
        finally:
            flushing.cancel()
            with contextlib.suppress(FleetLost):
                self._runner.abort(self.job.id, self.job.attempt)

    def cancel(self) -> None:
        """Ask the attempt to unwind. One that was claimed after the cancel does nothing else anyway.

        It is repeated with each renewal of the lease, because the process may not have had the job yet.
        """
        if self.job.is_unwinding:
            return
        if not self.canceled.is_set():
            self._canceled_at = time.monotonic()
        self.canceled.set()
        if self._is_process_at_work:
            with contextlib.suppress(FleetLost):
                self._runner.cancel(self.job.id, self.job.attempt)

    @property
    def is_unwinding_for_too_long(self) -> bool:
        return time.monotonic() - self._canceled_at > MAX_UNWIND_SECONDS

    async def hand_back(self, reason: str) -> None:
        """Queue the job again at once, because this server stops or the attempt hangs."""
        with contextlib.suppress(TerracrewError):
            await self._db.write(lambda tx: self._lose(tx, reason))

    async def _work(self) -> tuple[FleetOutcome, str, Mapping[str, str]]:
        try:
            if self._log.has_more:
                await self.write(_nothing_else)
            if self.job.is_unwinding:
                await self._process_part()
                return "succeeded", "", {}
            own = _ServerPart(self)
            await self._handler.before(self.job, own)
            own.require_wanted()  # a cancel that came meanwhile did not reach the process
            self._is_process_at_work = True
            try:
                facts = await self._process_part()
            finally:
                self._is_process_at_work = False
            facts = await self._handler.after(self.job, facts, own)
        except Canceled:
            return "canceled", "", {}
        except (FleetLost, Superseded):
            raise
        except TerracrewError as error:
            return "failed", error.message, {}
        except Exception as fault:  # a job ends with its error, whatever it is
            log.exception("a fleet job has a fault", job=self.job.id)
            return "failed", f"the server has a fault ({type(fault).__name__}): see its log", {}
        return "succeeded", "", facts

    async def _process_part(self) -> dict[str, str]:
        return {} if self._grant is None else await self.have_done(self._grant.work)

    async def have_done(self, work: FleetWork) -> dict[str, str]:
        """Have work done by the fleet process, and return its facts. Raises CloudRefused, Canceled or FleetLost."""
        assert self._grant is not None, "the fleet process has no part in this job"
        message = RunJob(self.job.id, self.job.attempt, self._grant.identity, work)
        try:
            async with asyncio.timeout(MAX_WORK_SECONDS):
                ended = await self._runner.run(message, self.take)
        except TimeoutError:
            raise FleetLost(f"it has not ended within {MAX_WORK_SECONDS / 60:.0f} minutes") from None
        if ended.outcome == "canceled":
            raise Canceled("the job was canceled")
        if ended.outcome == "failed":
            raise CloudRefused(ended.error[:MAX_TEXT_CHARACTERS] or "the cloud refused without a reason")
        facts = list(ended.facts.items())[:MAX_FACTS]
        return {name[:MAX_TEXT_CHARACTERS]: value[:MAX_TEXT_CHARACTERS] for name, value in facts}

    def take(self, event: WorkEvent) -> None:
        """Remember what was reported; it is stored some time later."""
        self._log.take(event)
        self._arrived.set()

    def describe(self, step: str, words: str, reference: str) -> None:
        self._log.describe(step, words, reference)
        self._arrived.set()

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        """Run a unit of work, provided that the attempt still has the job. A database that is away for some time is waited for."""
        while True:
            try:
                return await self._log.write(work)
            except Unavailable:
                await asyncio.sleep(RETRY_SECONDS)

    async def _flush_regularly(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(FLUSH_SECONDS)
            self._arrived.clear()
            try:
                await self._log.flush()
            except Superseded:
                return
            except Unavailable:
                self._arrived.set()
                await asyncio.sleep(RETRY_SECONDS)

    async def _until_stored(self, work: Callable[[Tx], Awaitable[None]]) -> None:
        """Store how the attempt ended, also if the database is away for some time. The lease bounds how long this matters."""
        try:
            await self.write(work)
        except Superseded:
            log.info("this server has lost an attempt of a fleet job", job=self.job.id)

    async def _end(self, tx: Tx, outcome: FleetOutcome, error: str, facts: Mapping[str, str]) -> None:
        before = await store.hold(tx, self.job.id)
        after = decide.finish(before, self.job.attempt, self._server_id, outcome, error, tx.moment)
        if after is None:
            return
        await store.fail_running_steps(tx, after.id, after.attempt, after.error or "it did not say how it ended")
        await store.save(tx, before, after)
        await self._handler.on_end(tx, after, facts)
        tx.on_commit(lambda: metrics.ended.labels(after.type.value, after.status.value).inc())

    async def _lose(self, tx: Tx, reason: str) -> None:
        before = await store.hold(tx, self.job.id)
        after = decide.lose(before, self.job.attempt, self._server_id, reason, tx.moment)
        if after is not None:
            await lost(tx, before, after, self._handler)


async def _nothing_else(tx: Tx) -> None:
    """Write only what every write of an attempt does: that it has begun, its steps and its lines."""
    del tx


async def lost(tx: Tx, before: FleetJob, after: FleetJob, handler: FleetHandler | None) -> None:
    """Write what became of a job that has lost its attempt, with a line in the log of that attempt."""
    await store.add_note(tx, before, f"Attempt {before.attempt} has ended: {after.losses[-1]}.")
    await store.fail_running_steps(tx, before.id, before.attempt, after.losses[-1])
    await store.save(tx, before, after)
    tx.on_commit(lambda: metrics.lost.labels(after.type.value).inc())
    if after.is_terminal and handler is not None:
        await handler.on_end(tx, after, {})


class _ServerPart:
    """The reporter of the server's own part; see `handlers.ServerReporter`."""

    def __init__(self, attempt: AttemptRun) -> None:
        self._attempt, self._key = attempt, (attempt.job.id, attempt.job.attempt)

    def begin(self, step: str, words: str) -> None:
        self._attempt.take(StepBegun(*self._key, step, words))

    def done(self, step: str, reference: str = "", words: str = "") -> None:
        self._attempt.take(StepDone(*self._key, step, reference, words))

    def failed(self, step: str, words: str, remedy: str = "") -> None:
        self._attempt.take(StepFailed(*self._key, step, words, remedy))

    def line(self, text: str) -> None:
        self._attempt.take(LinePrinted(*self._key, text))

    def describe(self, step: str, words: str, reference: str = "") -> None:
        self._attempt.describe(step, words, reference)

    def require_wanted(self) -> None:
        if self._attempt.canceled.is_set():
            raise Canceled("the job was canceled")

    async def wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._attempt.canceled.wait()
        self.require_wanted()

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        return await self._attempt.write(work)

    async def run(self, work: FleetWork) -> dict[str, str]:
        return await self._attempt.have_done(work)
