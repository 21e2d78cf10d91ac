"""The scheduler claims each queued job for the freest instance of its best tier, as soon as an instance has a credit for it.

It holds a view in memory. The database decides about the queue and every claim, so a stale view costs only time. The scheduler
acts on wake-ups, and a slow sweep checks everything again in case a wake-up was lost.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.db.seam import Database, Tx
from terracrew.server.db.topics import FreedKey
from terracrew.server.jobs import queue_reads
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling import assignment_view, reads, select, wake_demand
from terracrew.server.scheduling.assignment_view import AssignmentView, Route
from terracrew.server.scheduling.candidates import Candidates, paused
from terracrew.server.scheduling.caps import Caps
from terracrew.server.scheduling.lines import WaitingLines
from terracrew.server.scheduling.new_jobs import Freshness, NewJobs
from terracrew.server.scheduling.online import OnlineRunners
from terracrew.server.scheduling.queue import ModuleQueues, Waiting
from terracrew.server.scheduling.reservations import Reservations
from terracrew.server.scheduling.turns import GroupTurns
from terracrew.server.scheduling.wake_demand import WakeDemand

SWEEP_SECONDS = 5.0
MAX_JOBS_AT_ONCE = 200
"""How many jobs are moved to another line before other tasks of the event loop get a turn."""
SERVICE_PAUSE_RATIO = 3.0
"""How long nobody is served who sends news, compared with how long it took before: runners may send as much as they like."""


Claim: TypeAlias = Callable[["Scheduler", Waiting, RunnerSession], None]
"""Begins to claim a job for an instance, and tells the scheduler when that is decided: it calls `claimed` or `unclaimed`."""


class Scheduler:
    def __init__(self, db: Database, registry: Registry, claim: Claim, precedence: Precedence = "online") -> None:
        self._db = db
        self._registry, self._claim = registry, claim
        self._waiting: dict[str, Waiting] = {}
        """The waiting jobs, by id."""
        self._modules = ModuleQueues()
        self._lines = WaitingLines(GroupTurns())
        self._caps = Caps()
        self._assigned = AssignmentView()
        self._routes: dict[str, Route] = {}
        """The line of each waiting job, by its id."""
        self._untaken: set[str] = set()
        """Jobs that were taken out of their lines because no instance here could start them. They wait for a sweep."""
        self._new = NewJobs(db)
        self._online = OnlineRunners(db, registry)
        self._candidates = Candidates(registry, self._assigned, self._online, precedence)
        self._reservations = Reservations(self._assigned, self._candidates, self._modules, self._lines)
        self.freshness = Freshness()
        self.demand_changed = asyncio.Event()
        """Set when `demand` may say something else, if any runner can be woken."""
        self._just_claimed: dict[str, tuple[str, RunnerSession]] = {}
        """Claims since the last sweep began to read, which may not have seen them."""
        self._to_serve: set[RunnerSession] = set()
        """The instances that have sent news, and are served as soon as `_next_service_at` allows."""
        self._next_service_at = 0.0
        self._unread: set[str] = set()
        """Jobs that were taken from the transaction that created them. Their module may have changed before the commit, so the next
        sweep reads those that still wait."""

    # ---- the loop

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        with self.freshness.watching(self._db) as wakeups, self._online.watching():
            await self._reroute()  # also after the database was unavailable, because changes may have been missed
            next_sweep = clock() + SWEEP_SECONDS
            while True:
                woken = await wakeups.get(timeout=max(0.0, next_sweep - clock()))
                if clock() >= next_sweep:
                    await self.sweep()
                    next_sweep = clock() + SWEEP_SECONDS
                await self.step(woken)

    async def step(self, woken: Iterable[tuple[str, str]]) -> None:
        """Act on wake-ups. A topic without a key means that any assignment may have changed, so everything is read again."""
        with self.freshness.reading():
            await self._step(woken)
        self._admit_new()
        self._note_demand()

    async def _step(self, woken: Iterable[tuple[str, str]]) -> None:
        queued = [key for topic, key in woken if topic == "queue" and key]
        freed = [FreedKey.decode(key) for topic, key in woken if topic == "freed" and key]
        changed = [key for topic, key in woken if topic == "tree" and key]
        if any(not key for _, key in woken):
            await self._reroute()
        else:
            queued += [job.id for key in changed for job in self._modules.of(key)]
            for runner_id in sorted(key for topic, key in woken if topic == "assignments"):
                queued += await self._runner_changed(runner_id)
            if changed and await self._db.read(reads.caps) != self._caps.limits:
                await self._load_caps()
                await self._line_up_all(self._modules.heads())
        # The state of a freed module may have changed; then a saved plan no longer binds its job to a runner. If its job was queued
        # again, that job comes before the others of the module. So both are read before the module counts as free.
        heads = [head for key in freed if (head := self._modules.head(key.module_id))]
        await self._look_at(queued + [head.id for head in heads if head.made_by])
        for key in freed:
            self._free(key)
        for key in freed:
            if session := self._registry.runners.get(key.instance_id or ""):
                self.serve(session)

    async def sweep(self) -> None:
        """Check everything again. Of the queue, only the jobs that are not known are read."""
        with self.freshness.reading():
            await self._sweep()
        self._admit_new()
        self._note_demand()

    async def _sweep(self) -> None:
        self._just_claimed = {}
        if not self._assigned.is_loaded:
            await self._assigned.load(self._db)
        self._modules.busy, held = await self._db.read(reads.busy)
        for session in self._registry.runners.values():
            session.active_jobs = held.get(session.instance_id, set())
        for job_id, (module_id, session) in self._just_claimed.items():
            self._modules.busy.add(module_id)
            session.active_jobs.add(job_id)
        await self._online.read()
        await self._load_caps()
        doubtful, self._unread = self._candidates.refused | self._unread, set()
        self._candidates.forget_refusals()
        known = {job.id: job.attempt for job in self._waiting.values()}
        to_read = doubtful | await reads.changed(self._db, known)
        await self._look_at(sorted(to_read - self._just_claimed.keys()))
        await self._line_up_all(self._modules.heads())

    async def _load_caps(self) -> None:
        """Read which groups limit how many jobs run at once, and which jobs run below them."""
        self._caps.begin_load()
        limits = await self._db.read(reads.caps)
        running = await self._db.read_in_background(reads.running) if limits else {}
        self._caps.load(limits, running, self._reservations.jobs)

    # ---- jobs

    async def _look_at(self, job_ids: Sequence[str]) -> None:
        """Read these jobs again, which were queued, claimed or removed."""
        for start in range(0, len(job_ids), reads.MAX_JOBS_PER_READ):
            few = job_ids[start : start + reads.MAX_JOBS_PER_READ]
            found, unreadable = await self._db.read(lambda tx, few=few: reads.queued(tx, few))
            self._unread.difference_update(few)
            self._registry.withheld.add_damaged(unreadable)
            for job_id in set(few) - {job.id for job in found}:
                self._drop(job_id)
            self._admit(found)
            await asyncio.sleep(0)

    def enqueue(self, jobs: Sequence[Waiting]) -> None:
        """Take jobs that a transaction of this server has just created. While others are being read, they wait for these."""
        if not self.freshness.is_watching:
            self._new.tell(jobs)
            return
        self._new.add(jobs)
        self._admit_new()

    def _admit_new(self) -> None:
        """Put new jobs into their lines, not too many at once, unless others are being read: those enter first."""
        if not self.freshness.is_current:
            return
        self._admit(())
        self._note_demand()
        if self._new:
            asyncio.get_running_loop().call_soon(self._admit_new)

    def _admit(self, queued: Iterable[Waiting]) -> None:
        """Put jobs into their lines, those that were read and new ones. A job that is there already stays there."""
        entered: set[Route] = set()
        new = self._new.take(MAX_JOBS_AT_ONCE)
        for job in (*new, *queued):  # what was read is newer
            if self._waiting.get(job.id) != job:
                self._forget(job.id)
                self._waiting[job.id] = job
                self._routes[job.id] = self._assigned.route(job)
                self._modules.add(job)
            head = self._modules.head(job.module_id)
            if head is not None and self._modules.is_next(head):
                entered |= self._enter_line(head)
        self._unread.update(job.id for job in new)
        self._serve_lines(entered)
        self._new.tell(new, self._reservations)

    def _line_up(self, job: Waiting) -> None:
        self._serve_lines(self._enter_line(job))

    async def _line_up_all(self, jobs: Sequence[Waiting]) -> None:
        """Put many jobs into their lines. Each line is served once, because serving it may mean to search a whole fleet for a free slot."""
        entered: set[Route] = set()
        for count, job in enumerate(jobs, 1):
            if self._waiting.get(job.id) is job and self._modules.is_next(job):
                entered |= self._enter_line(job)
            if count % MAX_JOBS_AT_ONCE == 0:
                await asyncio.sleep(0)
        self._serve_lines(entered)

    def _enter_line(self, job: Waiting) -> set[Route]:
        """Put a job into its line, unless it is being claimed or withheld. Returns the line that must be served then."""
        self._untaken.discard(job.id)
        if job.id in self._reservations or self._registry.withheld.is_withheld(job.id):
            return set()
        route = self._routes[job.id]
        self._lines.push(job, route)
        return {route}

    def _drop(self, job_id: str) -> None:
        """Forget a job that is not queued any more, and put the next one of its module into its line."""
        job = self._forget(job_id)
        if job is not None and job.module_id not in self._modules.busy and (head := self._modules.head(job.module_id)):
            self._line_up(head)

    def _forget(self, job_id: str) -> Waiting | None:
        """Forget what is known of a job. If it is being claimed, its slot stays reserved until that is decided."""
        self._new.discard(job_id)
        self._unread.discard(job_id)
        self._untaken.discard(job_id)
        job = self._waiting.pop(job_id, None)
        if job is not None:
            self._modules.remove(job)
            self._lines.discard(job_id, self._routes.pop(job_id))
            self._caps.forget(job_id)
        return job

    async def _runner_changed(self, runner_id: str) -> list[str]:
        """Handle the creation, change or removal of a runner or its assignments. Returns the jobs that must be read again.

        Only jobs below a place that got its first runner or lost its last one change their line. The row of a job depends on a
        runner only through a saved plan that the runner made.
        """

        async def read(tx: Tx) -> tuple[frozenset[str], tuple[set[str], set[str]], bool, list[str]]:
            places = await assignment_view.places_in_database(tx, runner_id)
            names, can_wake = await reads.online_of_runner(tx, runner_id), await reads.can_wake(tx, runner_id)
            return places, names, can_wake, await queue_reads.planned_by(tx, runner_id)

        places, names, can_wake, planned = await self._db.read(read)
        self._online.change(runner_id, *names, can_wake=can_wake)
        before = self._assigned.places_of(runner_id)
        await self._move(self._assigned.assign(runner_id, places))
        self._serve_lines(self._lines.at(before | places))
        return planned

    async def _move(self, turned: set[str]) -> None:
        """Move the jobs below these places to other lines, because the places got their first runner or lost their last one."""
        moved: list[Waiting] = []
        for count, job in enumerate(list(self._waiting.values()) if turned else (), 1):
            if self._waiting.get(job.id) is job and assignment_view.is_covered(job, turned):
                self._lines.discard(job.id, self._routes[job.id])
                self._caps.forget(job.id)
                self._routes[job.id] = self._assigned.route(job)
                moved.append(job)
            if count % MAX_JOBS_AT_ONCE == 0:
                await asyncio.sleep(0)
        await self._line_up_all(moved)

    async def _reroute(self) -> None:
        """Read everything again and put all jobs into their lines, at the start or after wake-ups were lost."""
        with self.freshness.reading():
            await self._reload()

    async def _reload(self) -> None:
        await self._assigned.load(self._db)
        self._caps = Caps()
        for known in (self._routes, self._waiting, self._modules, self._lines, self._untaken):
            known.clear()
        await self.sweep()

    # ---- runners that can be woken

    def demand(self) -> list[WakeDemand]:
        """Count the jobs that wait for runners that can be woken. It reads nothing if there is none."""
        if not self._online.wakeable:
            return []
        pausing = self._candidates.pausing
        lines = {(route, paused(pausing, route)): jobs for route, jobs in self._lines}
        for job_id in self._untaken:
            job, route = self._waiting[job_id], self._routes[job_id]
            lines.setdefault((route, paused(pausing, route, job)), []).append(job)
        waiting = (
            (line, [job for job in jobs if self._waiting.get(job.id) is job and self._modules.is_next(job)])
            for line, jobs in lines.items()
        )
        claimed = self._reservations.routes
        return wake_demand.count(waiting, claimed, self._candidates.best_tier, self._online.wakeable, self._caps)

    def _note_demand(self) -> None:
        if self._online.wakeable:
            self.demand_changed.set()

    @property
    def is_admitting(self) -> bool:
        """Whether new jobs of this server are in no line yet."""
        return bool(self._new)

    # ---- claims

    def reserve(self, jobs: Sequence[Waiting]) -> dict[str, RunnerSession]:
        """Reserve slots for jobs that a transaction is creating, so that it can claim them. Returns their instances, by job.

        Every job is passed to `claimed` or `unclaimed` when the transaction has ended. Nothing is reserved while other jobs may be
        in no line yet: a new job overtakes none of them.
        """
        is_current = self.freshness.is_current and not self.is_admitting
        return self._reservations.choose(jobs, self._caps) if is_current else {}

    def claimed(self, job_id: str) -> None:
        """Record that the claim of a job succeeded."""
        self._new.decided(job_id, is_claimed=True)
        found = self._reservations.release(job_id, is_claimed=True)
        if found is None:
            return
        self._just_claimed[job_id] = found.job.module_id, found.session
        self._modules.busy.add(found.job.module_id)
        found.session.active_jobs.add(job_id)
        found.session.used_at = time.monotonic()
        self._caps.start(found.job)
        self._drop(job_id)

    def unclaimed(self, job_id: str, *, is_refused: bool = True) -> None:
        """Record that a job was not claimed: its claim was refused, or the transaction failed.

        If it was refused, somebody else may have the job, so it is read before another instance is tried.
        """
        found = self._reservations.release(job_id, is_claimed=False)
        if found is None:
            return
        if is_refused:
            self._candidates.refuse(job_id, found.session)
        self._new.decided(job_id, is_claimed=False)
        if job_id in self._waiting:
            self._db.wake_here("queue", job_id)
        self._fill(self._caps.release(job_id))
        self.serve(found.session)

    def _free(self, freed: FreedKey) -> None:
        self._modules.busy.discard(freed.module_id)
        if session := self._registry.runners.get(freed.instance_id or ""):
            session.active_jobs.discard(freed.job_id)
            session.used_at = time.monotonic()
        if head := self._modules.head(freed.module_id):
            self._line_up(head)
        self._fill(self._caps.end(freed.job_id))

    # ---- runners

    def serve_soon(self, session: RunnerSession) -> None:
        """Serve an instance that has sent news, together with all others that do until then.

        That is in the next turn of the event loop, unless serving instances took long a moment ago.
        """
        self._to_serve.add(session)
        if len(self._to_serve) == 1:
            asyncio.get_running_loop().call_at(self._next_service_at, self._serve_all)

    def _serve_all(self) -> None:
        clock = asyncio.get_running_loop().time
        sessions, self._to_serve = self._to_serve, set()
        begun = clock()
        try:
            self.serve(*sessions)
        finally:
            self._next_service_at = clock() + (clock() - begun) * SERVICE_PAUSE_RATIO

    def serve(self, *sessions: RunnerSession) -> None:
        """Serve the lines that these instances can serve, because they may have a free slot."""
        self._serve_lines({route for session in sessions for route in self._lines_of(session)})

    def _lines_of(self, session: RunnerSession) -> Iterator[Route]:
        """Yield the lines in which jobs wait that an instance could take.

        An instance that takes jobs but has no free slot changes nothing. If it takes no jobs, its jobs may go to another tier.
        """
        if session.takes_jobs and session.free <= 0:
            return
        for route in self._lines.at(self._assigned.places_of(session.runner_id)):
            is_able = not session.takes_jobs or select.lacks(route, session) is None
            if is_able and route.runner_id in (None, session.runner_id):
                yield route

    def left(self, session: RunnerSession) -> None:
        """Note that an instance has disconnected.

        Its tier counts as online for a moment, so that the jobs of a fleet that reconnects do not go to the next tier.
        """
        self._online.left(session)

    def _serve_lines(self, routes: Iterable[Route]) -> None:
        """Claim the jobs of these lines while an instance can take them. The job that comes first in all of them is claimed first."""
        for route in self._lines.in_turn(routes):
            if next(self._candidates.of(route), None) is None:
                continue
            job = self._lines.pop(route)
            # Of a module, only the next job is claimed, and only while the module is free. Later its next job is put into its line.
            if job is None or self._waiting.get(job.id) is not job or not self._modules.is_next(job):
                continue
            session = self._candidates.first(job, route)
            if session is None:
                self._untaken.add(job.id)  # nobody could start it a moment ago: a sweep puts it into its line again
                continue
            if place := self._caps.full_place(job):
                self._caps.hold(place, job)
            else:
                self._reservations.add(job, route, session, self._caps)
                self._claim(self, job, session)

    def _fill(self, places: Iterable[str]) -> None:
        """Claim jobs that were held back, because these groups have fewer running jobs than before."""
        for place in places:
            while job := self._caps.next_held(place):
                if self._waiting.get(job.id) is job and self._modules.is_next(job):
                    self._line_up(job)
