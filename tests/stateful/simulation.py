"""One simulation: a server, three hosts, three modules and people, and everything that may happen to them."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable

from terracrew import ids
from terracrew.api.jobs import CHOSEN, ApplyPlan, Job, JobStatus, NewJob
from terracrew.api.modules import ModuleChange
from terracrew.api.runners import RunnerChange
from terracrew.errors import TerracrewError, Unavailable
from terracrew.protocol.messages import AttemptRef, CancelMode
from terracrew.protocol.spec import JobType
from terracrew.server.jobs import approvals, service
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.create import JobRequest
from terracrew.server.runners import service as runners
from terracrew.server.runners.removal import service as removal
from terracrew.server.state import quarantine
from terracrew.server.tree.modules import service as modules
from tests.stateful import rules
from tests.stateful.faulty_database import patient
from tests.stateful.server_under_test import KEYS, ROOTS, ServerUnderTest
from tests.stateful.simulated_executor import Executor
from tests.stateful.simulated_runners import Host, SimulatedRunners
from tests.stateful.snapshot import Snapshot

FEWEST_OPEN, MOST_OPEN = 2, 4
Action = Callable[[], Awaitable[str]]


class Simulation:
    site: ServerUnderTest
    crew: SimulatedRunners
    modules: list[str]
    now: Snapshot

    @classmethod
    async def make(cls, url: str) -> "Simulation":
        simulation = cls()
        simulation.site = site = await ServerUnderTest.make(url)
        simulation.crew = crew = SimulatedRunners(site)
        simulation.modules = [
            await site.module("plain"),
            await site.module("reviewed", needs_approval=True),
            await site.module("other", is_retried=True),
        ]
        first, second = await site.runner("first"), await site.runner("second")
        crew.hosts = [Host(crew, "one", first), Host(crew, "two", first), Host(crew, "three", second)]
        simulation.now = await Snapshot.read(site.real)
        simulation.adopting = set()
        return simulation

    def __init__(self) -> None:
        self.adopting: set[str]
        self.canceling: set[str] = set()
        """Jobs that a person has canceled, or tried to."""
        self._turn = 0
        self.last: list[str] = []
        """What each did last, to know why nothing comes to its end."""

    async def close(self) -> None:
        self.site.db.is_dead = True
        await self.crew.hang_up()
        await self.site.close()

    async def check(self, *, with_reasons: bool = True) -> None:
        """Let what is under way end; then look at everything."""
        await self.site.quiet()
        now = await Snapshot.read(self.site.real, self.site.server.watch if with_reasons else None)
        rules.check(self.now, now, by_people=self.adopting)
        rules.canceled_by_a_person(now, self.canceling)
        rules.gone_is_gone(self.crew, now)
        rules.nothing_after_a_result(self.crew, now)
        await rules.nothing_is_lost(self.site.real, self.crew, self.now, now)
        self.now, self.adopting = now, set()

    def summary(self) -> Counter[str]:
        """What came about, to know that it did."""
        found = Counter(f"attempt {attempt.outcome}" for attempt in self.now.attempts.values())
        found.update(f"state {state.status}" for state in self.now.states.values())
        found.update(f"job {job.status}" for job in self.now.jobs.values())
        found["begun"] = sum(attempt.begun_at is not None for attempt in self.now.attempts.values())
        found["fenced"] = sum(a.begun_at is not None and a.outcome == "lost" for a in self.now.attempts.values())
        found["in doubt after its end"] = sum(
            attempt.is_in_doubt and attempt.outcome in ("failed", "canceled", "gone")
            for attempt in self.now.attempts.values()
        )
        found["granted when created"] = self.crew.granted_when_created
        found["plan kept"] = len(self.now.plans)
        found["kept plan applied"] = sum(plan.applied_by is not None for plan in self.now.plans.values())
        found["plan of another job applied"] = sum(
            plan.is_chosen and plan.applied_by is not None for plan in self.now.plans.values()
        )
        return found

    # ---- what is there

    def of(self, *statuses: JobStatus) -> list[Job]:
        return [job for job in self.now.jobs.values() if job.status in statuses]

    @property
    def open_jobs(self) -> list[Job]:
        return [job for job in self.now.jobs.values() if not job.is_terminal]

    @property
    def busy(self) -> list[Executor]:
        """Executors that have something to do."""
        return [executor for executor in self.crew.executors.values() if not executor.has_to_wait]

    # ---- what happens by itself

    def natural(self) -> list[tuple[object, Action]]:
        """Who could do something now, and what: where all goes well, this is all that happens."""
        self._turn += 1
        away = [
            host
            for host in self.crew.hosts
            if host.is_up and not (host.is_connected or host.is_removed or host.is_cut_off)
        ]
        for host in self.crew.hosts:
            host.take_grants()
        found: list[tuple[object, Action]] = [(host, host.connect) for host in away]
        ready = [host for host in self.crew.hosts if host.is_connected]
        held = {job.module_id for job in self.now.jobs.values() if job.is_active}
        for index, job in enumerate(self.of(JobStatus.QUEUED)):
            if ready and job.module_id not in held and not self.now.quarantined(job.module_id):
                host = ready[(index + self._turn) % len(ready)]
                found.append((job.id, lambda host=host, job=job: host.claim(job.id, job.attempt)))
        is_slow_turn = self._turn % 8 == 0
        found += [
            (executor.ref, executor.go_on) for executor in self.busy if is_slow_turn or not executor.takes_its_time
        ]
        for job in self.of(JobStatus.AWAITING_APPROVAL):
            found.append((job.id, lambda job=job: self.look_at(job)))
        if len(self.open_jobs) < FEWEST_OPEN:
            module, kind = self.modules[self._turn % 2], (JobType.APPLY, JobType.DESTROY)[self._turn % 3 == 0]
            found.append((self, lambda: self.create(module, kind, needs_approval=False)))
        return found

    async def everybody(self) -> None:
        """Each does what comes next, one after the other; executors get a little further."""
        for actor, action in self.natural():
            for _ in range(4 if isinstance(actor, AttemptRef) else 1 if actor is not self else 0):
                told = await action()
                self.last.append(f"{actor}: {told}")

    # ---- people

    async def ask(self, work: Callable[[], Awaitable[object]]) -> str:
        """A person asks, perhaps for something that cannot be, or while the database is away; and tries again in that case."""
        for _ in range(3):
            try:
                await work()
            except Unavailable:
                await self.site.real.ready()
                continue
            except TerracrewError as error:
                return f"{error.code}: {error.message}"
            return "done"
        return "given up"

    async def create(self, module: str, kind: JobType, *, needs_approval: bool) -> str:
        wanted = JobRequest(self.site.boss, module, NewJob(kind, needs_approval=needs_approval), ids.new("key"))
        return await self.ask(lambda: self.site.server.create_job(wanted))

    async def cancel(self, job: Job, mode: CancelMode) -> str:
        self.canceling.add(job.id)
        return await self.ask(lambda: service.cancel(self.site.db, self.site.boss, job.id, mode))

    async def look_at(self, job: Job) -> str:
        """A person looks at the plan that a job waits with: a stale one is made again, any other is approved.

        Every third time the page is an old one, so that the person sees neither that the plan is stale nor the doubts.
        """
        plan, is_page_old = self.now.plans[job.id, job.plan_attempt or 0], self._turn % 3 == 0
        if plan.state_version != self.now.modules[job.module_id] and not is_page_old:
            return await self.replan(job, plan.attempt)
        return await self.decide(job, plan.attempt, is_good=True, is_blind=is_page_old)

    async def replan(self, job: Job, attempt: int) -> str:
        told = await self.ask(lambda: approvals.replan(self.site.db, self.site.boss, job.id, attempt))
        return f"plans again: {told}"

    async def decide(self, job: Job, attempt: int, *, is_good: bool, is_blind: bool = False) -> str:
        """Approve or decline; `is_blind`: the page that the person looked at did not show the doubts."""
        if is_good:
            registry, boss = self.site.server.registry, self.site.boss
            doubts = [] if is_blind else self.now.doubts(job.module_id)
            seen = {AttemptRef(doubt.job_id, doubt.number) for doubt in doubts}
            if (job.id, attempt) not in self.now.plans or self.now.plans[job.id, attempt].decision is None:
                self.crew.named[job.id, attempt] = seen
            return await self.ask(lambda: approvals.approve(self.site.db, registry, boss, job.id, attempt, seen))
        return await self.ask(lambda: approvals.decline(self.site.db, self.site.boss, job.id, attempt, "no"))

    async def apply_plan(self, planned: Job) -> str:
        """Somebody applies the plan that a PLAN job has kept, and has seen no doubt."""

        async def work() -> None:
            made = await self.site.server.apply_plan(self.site.boss, planned.id, ApplyPlan())
            self.crew.named.setdefault((made.job.id, CHOSEN), set())

        return await self.ask(work)

    async def give_up(self, ref: AttemptRef) -> str:
        registry = self.site.server.registry
        return await self.ask(
            lambda: lost_attempts.give_up(self.site.db, registry, self.site.boss, ref.job_id, ref.attempt)
        )

    async def judge(self, state_id: str, *, is_adopted: bool) -> str:
        act = quarantine.adopt if is_adopted else quarantine.discard
        if is_adopted:
            self.adopting.add(state_id)
        return await self.ask(lambda: self.site.db.write(lambda tx: act(tx, self.site.boss, state_id)))

    async def change_inputs(self, module: str, value: int) -> str:
        change = ModuleChange(inputs={"value": value})
        return await self.ask(
            lambda: self.site.db.write(lambda tx: modules.change(tx, self.site.boss, module, change, ROOTS, KEYS))
        )

    async def drain(self, host: Host, *, is_on: bool) -> str:
        change = RunnerChange(is_draining=is_on)
        return await self.ask(
            lambda: self.site.db.write(lambda tx: runners.change(tx, self.site.boss, host.runner_id, change))
        )

    async def remove(self, host: Host, *, is_forced: bool) -> str:
        """Remove the runner's record, at once or after its last job; what its attempts still have is delivered without it."""
        told = await self.ask(
            lambda: self.site.db.write(lambda tx: removal.remove(tx, self.site.boss, host.runner_id, is_forced))
        )
        await self._note_removed()
        return told

    async def loops(self) -> None:
        """One turn of the server's loops, after which a runner that was to be removed may be gone."""
        await self.site.loops()
        await self._note_removed()

    async def _note_removed(self) -> None:
        rows = await patient(lambda: self.site.real.read(lambda tx: tx.all("SELECT id FROM runners")))
        known = {row["id"] for row in rows}
        gone = [host for host in self.crew.hosts if not host.is_removed and host.runner_id not in known]
        if gone:
            await self.site.hear()
        for host in gone:
            host.is_removed = True

    # ---- time

    async def wait(self, seconds: float, *, is_watched: bool) -> None:
        """Let time pass: in a gap in which nobody looked, or while the server looks and who is connected says so."""
        unwatched = seconds if not is_watched else max(0.0, seconds - 80.0) if seconds > 3_600 else 0.0
        self.site.clock.now += unwatched
        left, passed, looked = seconds - unwatched, 0.0, 0.0
        while left > 0:
            step = min(4.0, left)
            self.site.clock.now += step
            left, passed = left - step, passed + step
            self.site.server.registry.note_check()
            if passed % 12 == 0:
                for host in self.crew.hosts:
                    await host.heartbeat()
            if passed - looked >= (12 if passed < 100 else 300):
                looked = passed
                await self.loops()
        await self.loops()

    # ---- the end of it

    async def all_die(self) -> None:
        """All hosts are lost: what had not begun is queued again, and what had is given up when its lease is over."""
        self.site.db.faults.clear()
        for host in self.crew.hosts:
            await host.lose_power()
        await self.wait(80, is_watched=True)
        await self.check()
        for job in self.now.jobs.values():
            if job.is_active:
                attempt = self.now.attempts[AttemptRef(job.id, job.attempt)]
                assert attempt.begun_at is not None, f"job {job.number} had not begun, and nobody has it"
                assert attempt.lost_at is not None, f"job {job.number} is lost, and nobody says so"
                reason = self.now.reasons[job.id]
                assert reason is not None
                assert reason.code == "lost"
        await self.wait(1_830, is_watched=True)
        await self.check()
        assert not any(job.is_active for job in self.now.jobs.values()), "a lock was left behind"

    async def all_ends(self) -> None:
        """With hosts that work and a person who decides, every job comes to its end."""
        for host in self.crew.hosts:
            host.come_back(is_disk_empty=not host.journal or host.name == "two")
            host.is_draining = host.is_cut_off = False
            await self.drain(host, is_on=False)
        self.crew.hosts.append(Host(self.crew, "last", await self.site.runner("last")))
        for _ in range(200):
            if not self.open_jobs:
                return
            self.last = []
            await self.everybody()
            await self.check()
            for state in self.now.states.values():
                if state.status == "quarantined":
                    await self.judge(state.id, is_adopted=False)
            for job in self.of(JobStatus.AWAITING_APPROVAL):
                await self.look_at(job)
            for job in self.open_jobs:
                if (reason := self.now.reasons[job.id]) and reason.code == "plan_runner" and self._is_removed(job):
                    await self.cancel(job, "interrupt")
            self.site.clock.now += 1
            with contextlib.suppress(TerracrewError):
                await self.loops()
            await self.site.hear()
            await self.check()
        waiting = {job.number: self.now.reasons[job.id] for job in self.open_jobs}
        raise AssertionError(f"these never end: {waiting}, {self.last}")

    def _is_removed(self, job: Job) -> bool:
        """Whether the runner that made its plan, and alone may go on with it, is there no more."""
        made = self.now.attempts[AttemptRef(job.id, job.plan_attempt or 0)]
        return any(host.is_removed for host in self.crew.hosts if host.runner_id == made.runner_id)

    async def at_once(self, actions: list[Action]) -> list[str | BaseException]:
        found = await asyncio.gather(*(action() for action in actions), return_exceptions=True)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, TerracrewError):
                raise each
        return found
