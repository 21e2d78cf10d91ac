"""The loop that starts instances of cloud-hosted runners as soon as jobs need them, and follows them until they have ended.

While no runner in a cloud exists, it reads nothing. While all of them sleep, it asks no cloud anything.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, NamedTuple

from terracrew.api.deployments import CloudInstance
from terracrew.server.cloud_hosted import starting, watching
from terracrew.server.cloud_hosted.demand import Waker, allot, read_wakers
from terracrew.server.cloud_hosted.describing import ServerFacts
from terracrew.server.cloud_hosted.model import CloudCalls
from terracrew.server.cloud_hosted.sweeping import HELLO_SECONDS
from terracrew.server.db import topics
from terracrew.server.db.seam import Database, Tx
from terracrew.server.deployments import model, reads
from terracrew.server.deployments.reads import Activity
from terracrew.server.runners import seat_reads
from terracrew.server.scheduling.scheduler import Scheduler
from terracrew.server.scheduling.wake_demand import WakeDemand
from terracrew.server.supervise import Tasks

DEBOUNCE_SECONDS = 0.05
"""How long wake-ups are collected, so that a burst of jobs is one decision."""
AWAKE_SECONDS = 2.0
"""How often instances are looked at while a runner has one."""
ASLEEP_SECONDS = 60.0
"""How often everything is read again while all runners sleep, because a wake-up may have been lost."""
LAST_LOOK_SECONDS = HELLO_SECONDS + 60.0
"""How long after its last instance a runner is looked at once more: nothing must be left that costs money. An instance that was
connected lately is not stopped, so a look before that would be in vain."""
LATELY_SECONDS = 1800.0
"""A server that starts looks once more at runners of which an instance has ended since then: its predecessor may not have done it."""
MIN_PAUSE_SECONDS = 0.1
MAX_DECISIONS_AT_ONCE = 16
"""About how many runners is decided at the same time: a burst of jobs for many runners must not wait for one after the other."""
PAGE_ROWS = 200


class Scaling:
    def __init__(
        self, db: Database, scheduler: Scheduler, calls: CloudCalls, server: ServerFacts, tasks: Tasks
    ) -> None:
        self._db, self._scheduler, self._calls, self._server, self._tasks = db, scheduler, calls, server, tasks
        self._busy: set[tuple[str, str]] = set()
        """What is being asked of clouds: `start` or `watch`, and the runner."""
        self._asked: Counter[str] = Counter()
        """How many requests for instances of a runner have no answer yet."""
        self._minimums: set[str] = set()
        """The runners of which instances are always wanted."""
        self._changed: set[str] = set()
        """The runners whose deployments have changed since the last step."""
        self._last_looks: dict[str, float] = {}
        """When to look once more at runners whose last instance has ended, by the clock of the event loop."""
        self._awake: frozenset[str] = frozenset()
        self.has_any = False
        """Whether there is a cloud-hosted runner, as far as this server knows."""
        self._began_at: float | None = None
        """When this server looked for the first time, by the database's clock."""

    async def run(self) -> None:
        with self._db.listen("deployments", "instances") as wakeups:
            self.note_changes()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._listen(wakeups))
                while True:
                    pause = await self.step()
                    await self._wait(pause)

    async def _listen(self, wakeups: Any) -> None:
        async for topic, key in wakeups:
            runner_id = topics.runner_of(topic, key)
            if topic == "deployments" or runner_id in self._awake:
                self._changed.add(runner_id)
                self._scheduler.demand_changed.set()

    async def _wait(self, seconds: float) -> None:
        """Wait until jobs or instances have changed, and then a moment for others that come with them."""
        try:
            async with asyncio.timeout(seconds):
                await self._scheduler.demand_changed.wait()
            await asyncio.sleep(DEBOUNCE_SECONDS)
        except TimeoutError:
            self.note_changes()
        self._scheduler.demand_changed.clear()

    def note_changes(self) -> None:
        """Read all deployments again in the next step, because a wake-up may have been lost."""
        self._changed.add("")

    async def step(self) -> float:
        """Start what is needed, follow what runs, and return after how many seconds to look again without a wake-up."""
        changed, self._changed = self._changed, set()
        if changed:
            await self._read(changed)
        if not self.has_any:
            return ASLEEP_SECONDS
        activity = await self._db.read(reads.activity)
        self._awake = frozenset(activity.awake)
        if self._began_at is None:
            self._began_at = activity.at
            now = asyncio.get_running_loop().time()
            for runner_id in await self._db.read(lambda tx: reads.ended_since(tx, tx.now - LATELY_SECONDS)):
                self._last_looks[runner_id] = now + LAST_LOOK_SECONDS
        for runner_id in activity.retries:
            await self._db.write(lambda tx, runner_id=runner_id: starting.end_back_off(tx, runner_id))
        await self._start(self._scheduler.demand())
        await self._follow(activity)
        return AWAKE_SECONDS if self._awake else self._pause_seconds(activity)

    def _pause_seconds(self, activity: Activity) -> float:
        """Return after how many seconds something is due although all runners sleep."""
        now = asyncio.get_running_loop().time()
        due = [at - now for at in self._last_looks.values()]
        if activity.next_retry_at is not None:
            due.append(activity.next_retry_at - activity.at)
        return min([ASLEEP_SECONDS, *(max(each, MIN_PAUSE_SECONDS) for each in due)])

    async def _read(self, changed: set[str]) -> None:
        """Read the deployments that have changed: which of them want instances at all times, and whether there is one at all."""
        if "" in changed:
            self.has_any = await self._db.read(reads.has_any)
            changed = await self._all() if self.has_any else set()
            self._minimums &= changed
        found = await self._db.read(lambda tx: reads.many(tx, changed)) if changed else {}
        self.has_any = self.has_any or bool(found)
        always = {runner_id for runner_id, each in found.items() if each.settings.min_instances}
        self._minimums = (self._minimums - changed) | always

    async def _all(self) -> set[str]:
        found: set[str] = set()
        last = ""
        while True:
            page = await self._db.read(lambda tx, last=last: reads.page(tx, last, PAGE_ROWS))
            found |= {each.runner_id for each in page}
            if len(page) < PAGE_ROWS:
                return found
            last = page[-1].runner_id
            await asyncio.sleep(0)

    # ---- starts

    async def _start(self, demands: list[WakeDemand]) -> None:
        """Decide for each runner that jobs wait for, and ask its cloud for what is missing."""
        if not demands and not self._minimums:
            return
        needed = await self._db.read(lambda tx: self._needed(tx, demands))
        counted: dict[str, set[str]] = {runner_id: set() for runner_id in needed}
        for demand in demands:
            for runner_id in counted.keys() & set(demand.wakeable):
                counted[runner_id].update(demand.job_ids)
        lacking = sorted(needed)
        for start in range(0, len(lacking), MAX_DECISIONS_AT_ONCE):
            few = lacking[start : start + MAX_DECISIONS_AT_ONCE]
            await asyncio.gather(*(self._decide(each, needed[each], counted[each]) for each in few))

    async def _decide(self, runner_id: str, queued: int, counted: set[str]) -> None:
        wanted = await self._db.write(lambda tx: starting.decide(tx, runner_id, queued, counted))
        if wanted:
            self._awake |= {runner_id}
            self._tasks.start(self._ask(runner_id, wanted))

    async def _ask(self, runner_id: str, wanted: Sequence[CloudInstance]) -> None:
        self._asked[runner_id] += 1
        try:
            await starting.ask(self._db, self._calls, self._server, runner_id, wanted)
        finally:
            self._asked[runner_id] -= 1

    async def _needed(self, tx: Tx, demands: list[WakeDemand]) -> dict[str, int]:
        """Return the runners that lack instances, with the number of jobs that wait for each. The transaction counts again."""
        wakeable = {each for demand in demands for each in demand.wakeable} | self._minimums
        seats = await seat_reads.seats(tx, wakeable | {each for demand in demands for each in demand.runners})
        wakers = await read_wakers(tx, wakeable, seats)
        jobs = allot(demands, seats, wakers)
        return {each: jobs.get(each, 0) for each, waker in wakers.items() if _lacks(waker, jobs.get(each, 0))}

    # ---- instances

    async def _follow(self, activity: Activity) -> None:
        """Look at the runners that have an instance, and once more at those whose last one has ended."""
        now = asyncio.get_running_loop().time()
        for runner_id, due in (await self._db.read(lambda tx: _due(tx, activity.awake))).items():
            self._last_looks[runner_id] = now + LAST_LOOK_SECONDS
            if due.presence:
                await self._db.write(lambda tx, runner_id=runner_id: watching.note_presence(tx, runner_id))
            if due.repeat and not self._asked[runner_id]:
                self._once("start", runner_id, self._repeat)
            if due.watch:
                self._once("watch", runner_id, self._watch)
        for runner_id in [each for each, at in self._last_looks.items() if at <= now]:
            del self._last_looks[runner_id]
            self._once("watch", runner_id, self._look_once_more)

    def _once(self, what: str, runner_id: str, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Begin something in a task of its own, unless it is being done for this runner: a slow cloud stops no other."""
        if (what, runner_id) in self._busy:
            return
        self._busy.add((what, runner_id))

        async def run() -> None:
            try:
                await work(runner_id)
            finally:
                self._busy.discard((what, runner_id))

        self._tasks.start(run())

    async def _repeat(self, runner_id: str) -> None:
        if wanted := await self._db.write(lambda tx: starting.take_unanswered(tx, runner_id)):
            await self._ask(runner_id, wanted)

    async def _watch(self, runner_id: str) -> None:
        live = await self._db.write(lambda tx: watching.take_watch(tx, runner_id))
        if live is not None:
            await watching.watch(self._db, self._calls, self._server, runner_id, live, self._began_at)

    async def _look_once_more(self, runner_id: str) -> None:
        live = await self._db.write(lambda tx: watching.take_watch(tx, runner_id, is_last=True))
        if live is None:
            return
        if not await watching.watch(self._db, self._calls, self._server, runner_id, live, self._began_at):
            self._last_looks[runner_id] = asyncio.get_running_loop().time() + LAST_LOOK_SECONDS


class _Due(NamedTuple):
    """What is to be done about a runner that has instances."""

    presence: bool
    repeat: bool
    watch: bool


async def _due(tx: Tx, runner_ids: Collection[str]) -> dict[str, _Due]:
    """Return what is to be done about these runners. What is done looks again, because another server may be quicker."""
    if not runner_ids:
        return {}
    present, now = await reads.presence(tx, runner_ids), tx.moment
    revisions = {each.runner_id: each.revision for each in (await reads.many(tx, runner_ids)).values()}
    return {
        runner_id: _Due(
            watching.is_presence_new(revisions.get(runner_id, 0), live, present[runner_id], now),
            any(starting.is_unanswered(each, now) for each in live),
            watching.is_watch_due(live, present[runner_id], now),
        )
        for runner_id, live in (await reads.live_of(tx, runner_ids)).items()
    }


def _lacks(waker: Waker, queued: int) -> bool:
    free = model.free_slots(waker.instances, waker.limits.capacity)
    staying = sum(each.status not in ("leaving", "ended") for each in waker.instances)
    return free < queued or staying < waker.limits.min_instances
