"""Claims fleet jobs for this server, renews their leases, and queues those again whose server was lost."""

import asyncio
import time

from terracrew.api.fleet_jobs import FleetJob, FleetJobType
from terracrew.errors import Conflict, Superseded, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.fleet_jobs import decide, store
from terracrew.server.fleet_jobs.handlers import FleetGrant, FleetHandlers, handler_of
from terracrew.server.fleet_jobs.running import AttemptRun, FleetRunner, lost
from terracrew.server.history import store as history
from terracrew.server.supervise import FailedRows

RENEW_SECONDS = 5.0
"""How often leases are renewed; they last for six times as long."""
SWEEP_SECONDS = 60.0
"""While no job is open, the loop waits for a new one, or for this long."""
MIN_WAIT_SECONDS = 0.05
MAX_RUNNING = 20
"""How many jobs a server runs at once."""
MAX_LEASE_AGE_SECONDS = 10.0
"""A server that was stopped for longer between the claim and the start of an attempt does not start it."""
STOP_SECONDS = 3.0
log = get_logger("terracrew.fleet")


class FleetJobs:
    """Several servers may run it on one database: every claim is a compare-and-set, and a unique index protects each target."""

    def __init__(self, db: Database, server_id: str, runner: FleetRunner, handlers: FleetHandlers) -> None:
        self._db, self._server_id, self._runner, self._handlers = db, server_id, runner, handlers
        self._running: dict[tuple[str, int], tuple[AttemptRun, asyncio.Task[None]]] = {}
        self._failed = FailedRows("fleet jobs")

    @property
    def running(self) -> int:
        """How many jobs this server runs."""
        return len(self._running)

    async def run(self) -> None:
        try:
            with self._db.listen("fleet") as wakeups:
                while True:
                    wait = await self.step()
                    await wakeups.get(timeout=wait)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def step(self) -> float:
        """Do what is due, and return how long nothing else is."""
        await self._renew()
        for job in await self._db.read(lambda tx: store.expired(tx, 100)):
            await self._expire(job)
        room = MAX_RUNNING - len(self._running)
        if room > 0:
            count = room + len(self._failed)
            found = [each for each in await self._db.read(lambda tx: store.claimable(tx, count)) if self._takes(each)]
            due = self._failed.due([each.id for each in found])
            for job in found[:room]:
                if job.id in due:
                    with self._failed.handling(job.id):
                        await self._claim(job)
        return await self._db.read(self._wait)

    async def stop(self) -> None:
        """Stop all attempts of this server, and queue their jobs again for the others."""
        found = list(self._running.values())
        for _, task in found:
            task.cancel()
        if found:
            await asyncio.wait([task for _, task in found], timeout=STOP_SECONDS)
            await asyncio.wait_for(
                asyncio.gather(
                    *(attempt.hand_back("its server was stopped") for attempt, _ in found), return_exceptions=True
                ),
                STOP_SECONDS,
            )

    def _takes(self, job: FleetJob) -> bool:
        return job.type in self._handlers

    async def _wait(self, tx: Tx) -> float:
        at = await store.next_due(tx)
        longest = RENEW_SECONDS if self._running else SWEEP_SECONDS
        if at is None:
            return longest
        # What is due and was left, because its target is busy or this server is, waits for a wake-up.
        return longest if at <= tx.now else min(longest, max(MIN_WAIT_SECONDS, at - tx.now))

    async def _renew(self) -> None:
        """Renew the leases of the jobs of this server, and pass on cancels. Attempts that it has lost are stopped."""
        if not self._running:
            return
        attempts = list(self._running)
        until = decide.LEASE.total_seconds()
        still = await self._db.write(lambda tx: store.renew(tx, self._server_id, attempts, tx.now + until))
        self._runner.keep_running()
        for key in attempts:
            entry = self._running.get(key)
            if entry is None:
                continue
            attempt, task = entry
            if key[0] not in still:
                task.cancel()  # another server has it, or it has ended meanwhile
            elif attempt.is_unwinding_for_too_long:
                task.cancel()
                await attempt.hand_back("it did not end after it was canceled")
            elif still[key[0]]:
                attempt.cancel()

    async def _expire(self, job: FleetJob) -> None:
        async def work(tx: Tx) -> None:
            before = await store.hold(tx, job.id)
            if (after := decide.expire(before, tx.moment)) is not None:
                await lost(tx, before, after, handler_of(self._handlers, before))

        with self._failed.handling(job.id):
            await self._db.write(work)
            log.warning("the server of a fleet job was lost", job=job.id, attempt=job.attempt)

    async def _claim(self, job: FleetJob) -> None:
        handler, begun = handler_of(self._handlers, job), time.monotonic()
        if handler is None:
            return

        async def work(tx: Tx) -> tuple[FleetJob, FleetGrant | None] | None:
            if job.type is not FleetJobType.CONNECTION_TEST and await history.open_hold(tx) is not None:
                return None
            before = await store.hold(tx, job.id)
            others = await store.open_of_target(tx, job.target_id)
            is_busy = any(each.is_active or each.id < job.id for each in others if each.id != job.id)
            after = decide.claim(before, job.attempt, self._server_id, tx.moment, is_target_busy=is_busy)
            if after is None:
                return None
            await store.save(tx, before, after)
            return after, await handler.on_claim(tx, after)

        try:
            found = await self._db.write(work)
        except Unavailable:
            raise
        except Superseded:
            return
        except TerracrewError as error:
            if isinstance(error, Conflict) and error.details.get("constraint") == "fleet_jobs_active":
                return  # another server has claimed a job of this target
            await self._refuse(job, error.message)
            return
        if found is None:
            return
        claimed, grant = found
        attempt = AttemptRun(self._db, self._runner, self._server_id, claimed, grant, handler)
        if time.monotonic() - begun > MAX_LEASE_AGE_SECONDS:
            await attempt.hand_back("its server was stopped for too long")
            return
        key = claimed.id, claimed.attempt
        task = asyncio.create_task(attempt.run(), name=f"fleet job {claimed.number}")
        self._running[key] = attempt, task
        task.add_done_callback(lambda done: self._done(key, done))

    async def _refuse(self, job: FleetJob, reason: str) -> None:
        async def work(tx: Tx) -> None:
            before = await store.hold(tx, job.id)
            after = decide.refuse(before, job.attempt, reason, tx.moment)
            if after is not None:
                await store.add_note(tx, before, f"It cannot begin: {reason}")
                await store.save(tx, before, after)
                if (handler := handler_of(self._handlers, after)) is not None:
                    await handler.on_end(tx, after, {})

        await self._db.write(work)

    def _done(self, key: tuple[str, int], task: "asyncio.Task[None]") -> None:
        self._running.pop(key, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            # The lease ends, and the job is queued again.
            log.error("an attempt of a fleet job has a fault", job=key[0], exc_info=error)
        self._db.wake_here("fleet", key[0])
