"""The scheduler: offers each queued job to the freest instances of its best tier, as soon as something can take it.

What it holds in memory is a view: the queue and every claim are decided by the database, so a stale view costs time and
nothing else. It acts on wake-ups; a slow sweep reads everything again, for the wake-up that was lost.
"""

import asyncio
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator

from terracrew.protocol import messages
from terracrew.server.db.mapping import rows_to
from terracrew.server.db.seam import Database, Tx
from terracrew.server.hub.registry import Registry, RunnerSession
from terracrew.server.jobs import routes
from terracrew.server.jobs.fair import FairQueue, Waiting
from terracrew.server.jobs.routes import Route

FIRST_RING = 2
WIDEN_AFTER = 0.05
OFFER_EXPIRES = 2.0
SWEEP_EVERY = 5.0
_QUEUED = """
SELECT jobs.id, jobs.attempt, jobs.organization_id, jobs.module_id, modules.path AS module_path, groups.path AS group_path,
    modules.engine, jobs.priority, jobs.queued_at, modules.runner_id, modules.runner_instance_name
FROM jobs JOIN modules ON modules.id = jobs.module_id JOIN groups ON groups.id = modules.group_id
WHERE jobs.status = 'QUEUED'"""


class Offer:
    def __init__(self, job: Waiting, route: Route) -> None:
        self.job = job
        self.route = route
        self.sessions: list[RunnerSession] = []
        self.timer: asyncio.TimerHandle | None = None


class Scheduler:
    def __init__(self, db: Database, registry: Registry) -> None:
        self._db = db
        self._registry = registry
        self._waiting: dict[str, Waiting] = {}
        self._of_module: dict[str, dict[str, Waiting]] = defaultdict(dict)
        self._busy: set[str] = set()
        """Modules with an active job."""
        self._lines: dict[Route, FairQueue] = {}
        self._lines_of: dict[str, set[Route]] = defaultdict(set)
        """The lines that a runner may be able to serve."""
        self._tiers: dict[tuple[str, str | None], routes.Tiers] = {}
        self._offers: dict[str, Offer] = {}
        self._online_elsewhere: set[str] = set()

    # ---- the loop

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        with self._db.listen("queue", "freed", "tree") as wakeups:
            await self.sweep()
            next_sweep = clock() + SWEEP_EVERY
            while True:
                woken = await wakeups.get(timeout=max(0.0, next_sweep - clock()))
                if clock() >= next_sweep:
                    await self.sweep()
                    next_sweep = clock() + SWEEP_EVERY
                await self.step(woken)

    async def step(self, woken: Iterable[tuple[str, str]]) -> None:
        """Act on what has happened. The topic `queue` without a key: who may take what has changed."""
        queued = [key for topic, key in woken if topic == "queue" and key]
        freed = [key for topic, key in woken if topic == "freed" and key]
        if any(topic == "tree" or not key for topic, key in woken):
            await self._reroute()
        for key in freed:
            self._free(*key.split(" "))
        if queued:
            found = await self._db.read(lambda tx: _read_queued(tx, queued))
            for job_id in set(queued) - {job.id for job in found}:
                self._drop(job_id)
            await self._admit(found)
        for key in freed:
            if session := self._registry.runners.get(key.split(" ")[2]):
                self.serve(session)

    async def sweep(self) -> None:
        """Read the whole queue again."""

        async def read(tx: Tx) -> tuple[list[Waiting], set[str], dict[str, set[str]], set[str]]:
            queued = rows_to(Waiting, await tx.all(_QUEUED))
            active = await tx.all(
                "SELECT id, module_id, instance_id FROM jobs WHERE status IN ('CLAIMED', 'PROCESSING')"
            )
            online = await tx.all("SELECT DISTINCT runner_id FROM instances WHERE is_connected AND NOT is_draining")
            held: dict[str, set[str]] = defaultdict(set)
            for row in active:
                held[row["instance_id"]].add(row["id"])
            return queued, {row["module_id"] for row in active}, held, {row["runner_id"] for row in online}

        queued, self._busy, held, self._online_elsewhere = await self._db.read(read)
        for gone in self._waiting.keys() - {job.id for job in queued}:
            self._drop(gone)
        for session in self._registry.runners.values():
            session.held = held.get(session.instance_id, set())
        await self._admit(queued)
        for module_id in self._of_module.keys() - self._busy:
            if head := self._head(module_id):
                self._line_up(head)

    # ---- jobs

    async def _admit(self, queued: Iterable[Waiting]) -> None:
        for job in queued:
            known = self._waiting.get(job.id)
            if known is not None and known.attempt == job.attempt:
                continue
            self._drop(job.id)
            self._waiting[job.id] = job
            self._of_module[job.module_id][job.id] = job
            key = (job.module_id, job.runner_id)
            if key not in self._tiers:
                self._tiers[key] = await self._db.read(
                    lambda tx, job=job: routes.tiers(
                        tx, job.organization_id, job.module_id, job.module_path, job.runner_id
                    )
                )
            if job.module_id not in self._busy and self._head(job.module_id) is job:
                self._line_up(job)

    def _head(self, module_id: str) -> Waiting | None:
        jobs = self._of_module.get(module_id)
        return min(jobs.values(), key=lambda job: (-job.priority, job.queued_at, job.id)) if jobs else None

    def _line_up(self, job: Waiting) -> None:
        if job.id in self._offers:
            return
        route = self._route(job)
        line = self._lines.get(route)
        if line is None:
            line = self._lines[route] = FairQueue()
            for tier in route.tiers:
                for runner_id in tier:
                    self._lines_of[runner_id].add(route)
        if job.id not in line:
            line.push(job)
        self._serve_line(route)

    def _route(self, job: Waiting) -> Route:
        return Route(self._tiers.get((job.module_id, job.runner_id), ()), job.engine, job.runner_instance_name)

    def _drop(self, job_id: str) -> None:
        job = self._waiting.pop(job_id, None)
        if job is None:
            return
        self._of_module[job.module_id].pop(job_id, None)
        if not self._of_module[job.module_id]:
            del self._of_module[job.module_id]
        if line := self._lines.get(self._route(job)):
            line.discard(job_id)
        self._withdraw(job_id)
        if job.module_id not in self._busy and (head := self._head(job.module_id)):
            self._line_up(head)

    async def _reroute(self) -> None:
        """Modules, runners or assignments have changed: read everything again and line everybody up anew."""
        for job_id in list(self._offers):
            self._withdraw(job_id)
        for known in (self._tiers, self._waiting, self._of_module, self._lines, self._lines_of):
            known.clear()
        await self.sweep()

    def claimed(self, job_id: str, module_id: str, session: RunnerSession) -> None:
        """A claim was won here."""
        self._busy.add(module_id)
        self._drop(job_id)
        session.held.add(job_id)

    def missed(self, job_id: str, session: RunnerSession) -> None:
        """A claim was refused: somebody else has the job, or something was in the way; the sweep sorts out which."""
        session.offered.discard(job_id)

    def _free(self, job_id: str, module_id: str, instance_id: str) -> None:
        self._busy.discard(module_id)
        if session := self._registry.runners.get(instance_id):
            session.held.discard(job_id)
        if head := self._head(module_id):
            self._line_up(head)

    # ---- runners

    def serve(self, session: RunnerSession) -> None:
        """The instance may have room: let the lines that it can serve move."""
        for route in list(self._lines_of.get(session.runner_id, ())):
            self._serve_line(route)

    def left(self, session: RunnerSession) -> None:
        """The instance is gone: what was offered to it is offered elsewhere."""
        for job_id in list(session.offered):
            if offer := self._offers.get(job_id):
                self._again(offer)
        self.serve(session)

    # ---- offers

    def _serve_line(self, route: Route) -> None:
        line = self._lines.get(route)
        while line:
            if next(self._candidates(route), None) is None:
                return
            job = line.pop()
            if job is None:
                return
            if job.id in self._waiting:
                self._offer(Offer(job, route))

    def _best_tier(self, route: Route) -> tuple[str, ...]:
        """A full tier waits; a tier without anyone who is online and takes jobs is passed over."""
        for tier in route.tiers:
            for runner_id in tier:
                sessions = self._registry.of_runner.get(runner_id)
                if sessions is None:
                    if runner_id in self._online_elsewhere:
                        return tier
                elif any(session.takes_jobs for session in sessions.values()):
                    return tier
        return ()

    def _candidates(self, route: Route) -> Iterator[RunnerSession]:
        """Instances of the best tier that could take the job now, beginning anywhere."""
        tier = self._best_tier(route)
        start = random.randrange(len(tier)) if tier else 0  # noqa: S311 - spreads load, guards nothing
        for index in range(len(tier)):
            for session in self._registry.of_runner.get(tier[(start + index) % len(tier)], {}).values():
                is_wanted = route.instance_name in (None, session.name)
                if is_wanted and session.free > 0 and route.engine in session.engines:
                    yield session

    def _offer(self, offer: Offer) -> None:
        found: list[RunnerSession] = []
        for session in self._candidates(offer.route):
            found.append(session)
            if len(found) == 8:
                break
        self._offers[offer.job.id] = offer
        found.sort(key=lambda session: -session.free)
        self._send(offer, found[:FIRST_RING])
        offer.timer = asyncio.get_running_loop().call_later(WIDEN_AFTER, self._widen, offer)

    def _send(self, offer: Offer, sessions: Iterable[RunnerSession]) -> None:
        for session in sessions:
            session.offered.add(offer.job.id)
            offer.sessions.append(session)
            session.socket.post(messages.Offer(offer.job.id, offer.job.attempt))

    def _widen(self, offer: Offer) -> None:
        asked = {session.instance_id for session in offer.sessions}
        self._send(offer, [s for s in self._candidates(offer.route) if s.instance_id not in asked])
        offer.timer = asyncio.get_running_loop().call_later(OFFER_EXPIRES, self._again, offer)

    def _again(self, offer: Offer) -> None:
        """Nobody took it: back into its line."""
        self._withdraw(offer.job.id)
        if self._waiting.get(offer.job.id) is offer.job and offer.job.module_id not in self._busy:
            self._line_up(offer.job)

    def _withdraw(self, job_id: str) -> None:
        offer = self._offers.pop(job_id, None)
        if offer is None:
            return
        if offer.timer is not None:
            offer.timer.cancel()
        for session in offer.sessions:
            session.offered.discard(job_id)


async def _read_queued(tx: Tx, job_ids: list[str]) -> list[Waiting]:
    found: list[Waiting] = []
    for job_id in job_ids:
        found += rows_to(Waiting, await tx.all(_QUEUED + " AND jobs.id = :id", id=job_id))
    return found
