"""A day of bursty load in simulated time: real rows, claims, scheduler and scaling, and a cloud in memory whose starts take a while.

Nothing sleeps. The clock of the database moves from event to event: a job comes, an instance says hello, a job ends, an instance was
idle for its idle time and asks to leave.
"""

import asyncio
import heapq
import random
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import NamedTuple

from terracrew.clouds.runner_environment import ASK_SECONDS
from terracrew.protocol.messages import AttemptRef
from terracrew.server.cloud_hosted import leaving
from terracrew.server.connections.registry import RunnerSession
from terracrew.server.db.topics import FreedKey
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.jobs.attempts import claims
from terracrew.server.jobs.attempts.claim_store import Claimant, ClaimRequest
from terracrew.server.principals.model import SYSTEM
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, delivery
from tests.builders.job_rows import Instance, JobRows
from tests.server.cloud_hosted.scaling_server import ScalingServer
from tests.server.scheduling.recorded_claims import MANY_CREDITS, Socket

DAY_SECONDS = 86_400.0
LOOK_SECONDS = 20.0


class Arrival(NamedTuple):
    at: float
    seconds: float


class Ran(NamedTuple):
    """A job that has run: when it came, began and ended."""

    came: float
    began: float
    ended: float


class Lived(NamedTuple):
    """An instance: when it was asked for, said hello and ended."""

    asked: float
    hello: float
    ended: float


class InstanceOfDay:
    def __init__(self, instance: Instance, session: RunnerSession, asked_at: float, hello_at: float) -> None:
        self.instance, self.session = instance, session
        self.asked_at, self.hello_at = asked_at, hello_at
        self.idle_since = hello_at


def bursts(rng: random.Random, count_of_bursts: int, jobs: int) -> list[Arrival]:
    """Return the jobs of a day: bursts in working hours, each within minutes, and a few single jobs in between."""
    found: list[Arrival] = []
    for _ in range(count_of_bursts):
        start = rng.uniform(8, 19) * 3600
        found += [Arrival(start + rng.expovariate(1 / 90), _seconds(rng)) for _ in range(rng.randint(jobs // 2, jobs))]
    found += [Arrival(rng.uniform(0, DAY_SECONDS), _seconds(rng)) for _ in range(count_of_bursts)]
    return sorted(found)


def _seconds(rng: random.Random) -> float:
    return min(1800.0, max(20.0, rng.lognormvariate(5.3, 0.8)))


class SimulatedDay:
    def __init__(
        self, rows: JobRows, server: ScalingServer, clock: ShiftedClock, runner_id: str, rng: random.Random
    ) -> None:
        self._rows, self._server, self._clock, self._runner_id, self._rng = rows, server, clock, runner_id, rng
        self.start_seconds: tuple[float, float] = (30.0, 60.0)
        self._ask_seconds = float(ASK_SECONDS)
        self._events: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._numbers = count()
        self.now = 0.0
        self._asked: dict[str, float] = {}
        self._alive: dict[str, InstanceOfDay] = {}
        self._came: dict[str, Arrival] = {}
        self.ran: list[Ran] = []
        self.lived: list[Lived] = []
        self.most_alive = 0

    async def run(self, arrivals: Sequence[Arrival]) -> None:
        """Let the day pass, until every job has run and every instance has left."""
        for each in arrivals:
            self._at(each.at, lambda each=each: self._arrive(each))
        await self._server.scheduler.sweep()
        while self._events:
            at, _, event = heapq.heappop(self._events)
            if at > self.now:
                self._clock.advance(at - self.now)
                self.now = at
            await event()
            await self._settle()

    def _at(self, at: float, event: Callable[[], Awaitable[None]]) -> None:
        heapq.heappush(self._events, (at, next(self._numbers), event))

    async def _settle(self) -> None:
        """Decide the claims of the scheduler, then start what is missing."""
        scheduler = self._server.scheduler
        for each in list(self._alive.values()):
            while each.session.reserved:
                await self._claim(each, next(iter(each.session.reserved)))
        self._server.scaling.note_changes()
        await self._server.scaling.step()
        await self._server.tasks.join()
        for name in self._server.cloud.started:
            if name not in self._asked:
                self._asked[name] = self.now
                self._at(self.now + self._rng.uniform(*self.start_seconds), lambda name=name: self._hello(name))
                self._at(self.now + LOOK_SECONDS, _nothing)
        assert not scheduler.is_admitting

    async def _arrive(self, arrival: Arrival) -> None:
        job_id = await self._rows.job(await self._rows.module())
        self._came[job_id] = arrival
        await self._server.scheduler.step({("queue", job_id)})

    async def _claim(self, it: InstanceOfDay, job_id: str) -> None:
        claimant = Claimant(job_id, 1, self._runner_id, it.instance.id, 1)
        won = await self._rows.claim(ClaimRequest(claimant, claims.make_credentials(), may_leave=True))
        if won is None:
            self._server.scheduler.unclaimed(job_id)
            return
        self._server.scheduler.claimed(job_id)
        await self._rows.take(delivery(AttemptRef(job_id, 1), 1, RUNNING))
        began, seconds = self.now, self._came[job_id].seconds
        self._at(began + seconds, lambda: self._end(it, job_id, won.module_id, began))

    async def _end(self, it: InstanceOfDay, job_id: str, module_id: str, began: float) -> None:
        await self._rows.take(delivery(AttemptRef(job_id, 1), 2, DONE))
        self.ran.append(Ran(self._came[job_id].at, began, self.now))
        it.idle_since = self.now
        await self._server.scheduler.step({("freed", FreedKey(job_id, module_id, it.instance.id).encode())})
        self._at(self.now + self._ask_seconds, lambda: self._ask_to_leave(it, it.idle_since))

    async def _hello(self, name: str) -> None:
        instance = await self._rows.instance_of(self._runner_id, name=name, slots=1)
        session = RunnerSession(
            Socket(),  # pyright: ignore[reportArgumentType]
            SYSTEM,
            runner_id=self._runner_id,
            instance_id=instance.id,
            name=name,
            epoch=1,
            engines=AvailableEngines((("tofu", ("1.12.6",)),)),
            slots=1,
            may_leave=True,
        )
        session.credits = MANY_CREDITS
        self._server.cloud.change(name, phase="running", words="")
        self._server.registry.add(session)
        it = self._alive[name] = InstanceOfDay(instance, session, self._asked[name], self.now)
        self.most_alive = max(self.most_alive, len(self._alive))
        self._server.scheduler.serve(session)
        self._at(self.now + self._ask_seconds, lambda: self._ask_to_leave(it, it.idle_since))

    async def _ask_to_leave(self, it: InstanceOfDay, since: float) -> None:
        session = it.session
        if session.name not in self._alive or it.idle_since != since or session.reserved or session.active_jobs:
            return
        idle = leaving.Idle(self._runner_id, it.instance.id, session.name, 1, self.now - since)
        if await self._rows.db.write(lambda tx: leaving.leave(tx, idle)):
            self._at(self.now + self._ask_seconds, lambda: self._ask_to_leave(it, since))
            return
        await it.instance.disconnect()
        self._server.registry.remove(session)
        self._server.scheduler.left(session)
        self._server.cloud.change(session.name, phase="ended", words="it exited", exit_code=0)
        del self._alive[session.name]
        self.lived.append(Lived(it.asked_at, it.hello_at, self.now))
        self._at(self.now + 6, _nothing)

    @property
    def task_seconds(self) -> float:
        """What the cloud is paid for: from the request to the end."""
        return sum(each.ended - each.asked for each in self.lived)


async def _nothing() -> None:
    await asyncio.sleep(0)


def oracle_seconds(ran: Sequence[Ran], start_seconds: float) -> float:
    """Return what the same jobs at the same times cost if the future were known.

    An instance that will have another job waits for it if that is cheaper than a new start, and ends at once otherwise. A job
    goes to the instance that became free last: the cost of a gap grows and then stays the same, so nested gaps are the cheapest.
    """
    total = 0.0
    free: list[float] = []
    """When the instances that have ended their last job became free, the latest last."""
    for at, kind, job in sorted([(job.began, 1, job) for job in ran] + [(job.ended, 0, job) for job in ran]):
        if kind == 0:
            free.append(at)
            continue
        gap = at - free.pop() if free else float("inf")
        total += min(gap, start_seconds) + (job.ended - job.began)
    return total
