"""Starts schedules when their time has come, and writes what became of it."""

import asyncio

from msgspec.structs import replace

from terracrew.api.schedules import Schedule, StartedSchedule
from terracrew.errors import TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.people import acting
from terracrew.server.schedules import model, starting, store
from terracrew.server.schedules.starting import Sources
from terracrew.server.supervise import FailedRows
from terracrew.wording import schedule_words

SWEEP_SECONDS = 30.0
"""How long the loop waits at most for a schedule to be due or to change."""
MIN_WAIT_SECONDS = 0.05
MEND_SECONDS = 3600.0
"""How often it looks for schedules whose next time was computed while the clock was ahead."""
MAX_STARTS_PER_STEP = 50
PAGE_ROWS = 200
MAX_OUTCOME_CHARACTERS = 1_000
log = get_logger("terracrew.schedules")


class Schedules:
    """Several servers may run it on one database: a start is written in the transaction that creates its jobs, and only if the
    schedule was still due at the same time."""

    def __init__(self, db: Database, sources: Sources) -> None:
        self._db, self._sources = db, sources
        self._failed = FailedRows("schedules")
        self._mend_at = 0.0

    async def run(self) -> None:
        with self._db.listen("schedules") as wakeups:
            while True:
                await self.step()
                await wakeups.get(timeout=await self._db.read(_wait_seconds))

    async def step(self) -> None:
        """Start everything whose time has come."""
        if (now := asyncio.get_running_loop().time()) >= self._mend_at:
            await self.mend()
            self._mend_at = now + MEND_SECONDS
        count = MAX_STARTS_PER_STEP + len(self._failed)
        found = await self._db.read(lambda tx: store.due(tx, count))
        due = self._failed.due(found)
        for schedule_id in found:
            if schedule_id in due:
                with self._failed.handling(schedule_id):
                    await self._handle(schedule_id)

    async def mend(self) -> None:
        """Compute the next time of schedules again that would start too late, because the clock was ahead."""
        after = ""
        while True:
            page = await self._db.read(lambda tx, after=after: store.waiting(tx, after, PAGE_ROWS))
            for each in page:
                await self._db.write(lambda tx, each=each: _mend(tx, each.id))
            if len(page) < PAGE_ROWS:
                return
            after = page[-1].id

    async def _handle(self, schedule_id: str) -> None:
        after = await self._db.write(lambda tx: self._start(tx, schedule_id))
        if after is not None:
            log.info("a schedule was due", schedule=schedule_id, outcome=after.last_outcome)

    async def _start(self, tx: Tx, schedule_id: str) -> Schedule | None:
        """Start a schedule if it is due, and return it with what became of it."""
        before = await store.hold(tx, schedule_id)
        if before is None or before.next_at is None or before.next_at > tx.moment:
            return None
        outcome, is_problem = await self._outcome(tx, before)
        after = replace(
            before,
            next_at=model.start_after(before, tx.now),
            last_at=tx.moment,
            last_outcome=outcome.outcome[:MAX_OUTCOME_CHARACTERS],
            is_last_problem=is_problem,
            last_job_id=outcome.job_id or before.last_job_id,
            last_group_run_id=outcome.group_run_id or before.last_group_run_id,
        )
        await store.start(tx, before, after)  # the row is held, so that the time is the same
        tx.wake("schedules", schedule_id)
        return after

    async def _outcome(self, tx: Tx, schedule: Schedule) -> tuple[StartedSchedule, bool]:
        """Start something, or say why nothing was started."""
        assert schedule.next_at is not None
        if model.is_too_late(schedule, tx.moment):
            due = schedule_words.moment(schedule.next_at, tx.moment, schedule.time_zone)
            return StartedSchedule(
                f"nothing was started: no server was running {due}, and it is not made up after {schedule.late_minutes} minutes"
            ), True
        who = await acting.principal(tx, schedule.changed_by, schedule.organization_id)
        if who is None:
            return StartedSchedule(
                f"nothing was started: {schedule.changed_by_name}, who changed the schedule last, may not run jobs any more. "
                "Somebody who may has to change it"
            ), True
        window = model.spread_seconds(schedule, tx.now)
        try:
            return await starting.start(tx, who, schedule, self._sources, window_seconds=window), False
        except Unavailable:
            raise
        except TerracrewError as error:
            return StartedSchedule(f"nothing was started: {error.message}"), True


async def _mend(tx: Tx, schedule_id: str) -> None:
    found = await store.hold(tx, schedule_id)
    if found is not None and model.is_too_far(found, tx.now):
        after = replace(found, next_at=model.start_after(found, tx.now))
        await store.start(tx, found, after)


async def _wait_seconds(tx: Tx) -> float:
    found = await store.next_due(tx)
    return SWEEP_SECONDS if found is None else min(max(found - tx.now, MIN_WAIT_SECONDS), SWEEP_SECONDS)
