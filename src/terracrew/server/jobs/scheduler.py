"""The scheduler: offers each queued job to the freest instances of its best tier, as soon as something can take it.

What it holds in memory is a view: the queue and every claim are decided by the database, so a stale view costs time and
nothing else. It acts on wake-ups; a slow sweep reads everything again, for the wake-up that was lost.
"""

import asyncio
import random
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import LiteralString

from terracrew import ids
from terracrew.protocol import messages
from terracrew.server.db.mapping import rows_to
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.hub.registry import Registry, RunnerSession
from terracrew.server.jobs import routes
from terracrew.server.jobs.fair import FairQueue, Waiting
from terracrew.server.jobs.routes import Route

WIDEN_AFTER = 0.05
"""Without a claim for that long an offer goes to twice as many instances; the first ring is the freest one."""
OFFER_EXPIRES = 2.0
SWEEP_EVERY = 5.0
# An expression of the status, so that PostgreSQL finds them by their ids and does not read the whole queue for each.
_QUEUED: LiteralString = f"""
SELECT jobs.id, jobs.attempt, jobs.organization_id, jobs.module_id, modules.path AS module_path, groups.path AS group_path,
    modules.engine, jobs.priority, jobs.queued_at, coalesce(made.runner_id, modules.runner_id) AS runner_id,
    modules.runner_instance_name, made.instance_id AS made_by
FROM batch JOIN jobs ON jobs.id = batch.job_id JOIN modules ON modules.id = jobs.module_id
JOIN groups ON groups.id = modules.group_id
LEFT JOIN ({routes.MAKER}) ON {routes.OF_JOB}
WHERE jobs.status || '' = 'QUEUED'"""
_QUEUE = "SELECT id, attempt, plan_attempt FROM jobs WHERE status = 'QUEUED' AND id > :last ORDER BY id LIMIT :count"
PAGE_JOBS = 1_000
MAX_JOBS_PER_READ = 100
_ONLINE = """
SELECT instances.id, instances.runner_id FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE instances.is_connected AND NOT instances.is_draining AND NOT runners.is_draining
    AND NOT runners.is_disabled AND instances.id > :last ORDER BY instances.id LIMIT :count"""


class Offer:
    def __init__(self, job: Waiting, route: Route) -> None:
        self.job = job
        self.route = route
        self.sessions: list[RunnerSession] = []
        self.claims = 0
        """Claims that the database has not decided yet: while there is one, nobody else need be asked."""
        self.timer: asyncio.TimerHandle | None = None


class Scheduler:
    def __init__(self, db: Database, registry: Registry) -> None:
        self._db = db
        self._registry = registry
        self._waiting: dict[str, Waiting] = {}
        self._of_module: dict[str, list[Waiting]] = defaultdict(list)
        """In the order in which they run."""
        self._busy: set[str] = set()
        """Modules with an active job, or with a state that a person has to decide about first."""
        self._lines: dict[Route, FairQueue] = {}
        self._lines_of: dict[str, set[Route]] = defaultdict(set)
        """The lines that a runner may be able to serve."""
        self._above: dict[tuple[str, str], routes.Tiers] = {}
        """By organization and group."""
        self._routes: dict[str, dict[tuple[str | None, ...], Route]] = defaultdict(dict)
        """By module, then by what a job of it wants."""
        self._offers: dict[str, Offer] = {}
        self._online_elsewhere: set[str] = set()
        """Runners with an instance that takes jobs and is not connected here, or was a moment ago."""
        self._just_claimed: dict[str, tuple[str, RunnerSession]] = {}
        """Claims since the last sweep began to read, which may not have seen them."""
        self._refused: set[str] = set()
        """Jobs for which a claim was refused: what is known of them here may be old, so the next sweep reads them again."""

    # ---- the loop

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        with self._db.listen("queue", "freed", "tree") as wakeups:
            await self._reroute()  # also after the database was away: what was heard before may not have been acted on
            next_sweep = clock() + SWEEP_EVERY
            while True:
                woken = await wakeups.get(timeout=max(0.0, next_sweep - clock()))
                if clock() >= next_sweep:
                    await self.sweep()
                    next_sweep = clock() + SWEEP_EVERY
                await self.step(woken)

    async def step(self, woken: Iterable[tuple[str, str]]) -> None:
        """Act on what has happened. A topic without a key: who may take what has changed, anywhere."""
        queued = [key for topic, key in woken if topic == "queue" and key]
        freed = [key for topic, key in woken if topic == "freed" and key]
        changed = [key for topic, key in woken if topic == "tree" and key]
        if any(not key for _, key in woken):
            await self._reroute()
        elif changed:
            queued += self._changed(changed)
        for key in freed:
            self._free(*key.split(" "))
        # The state of a freed module may have moved, and then a plan binds its job to nobody any more.
        heads = [self._head(key.split(" ")[1]) for key in freed]
        await self._look_at(queued + [head.id for head in heads if head is not None and head.made_by])
        for key in freed:
            if session := self._registry.runners.get(key.split(" ")[2]):
                self.serve(session)

    async def sweep(self) -> None:
        """Look at everything again; of the queue, read what is not known."""

        self._just_claimed = {}

        async def read(tx: Tx) -> tuple[set[str], dict[str, set[str]]]:
            active = await tx.all(
                "SELECT id, module_id, instance_id FROM jobs WHERE status IN ('CLAIMED', 'PROCESSING')"
            )
            held: dict[str, set[str]] = defaultdict(set)
            for row in active:
                held[row["instance_id"]].add(row["id"])
            waiting = await tx.all("SELECT module_id FROM states WHERE status = 'quarantined'")
            return {row["module_id"] for row in (*active, *waiting)}, held

        self._busy, held = await self._db.read(read)
        for session in self._registry.runners.values():
            session.held = held.get(session.instance_id, set())
        for job_id, (module_id, session) in self._just_claimed.items():
            self._busy.add(module_id)
            session.held.add(job_id)
        online = await self._pages(_ONLINE)
        self._online_elsewhere = {row["runner_id"] for row in online if row["id"] not in self._registry.runners}
        refused, self._refused = self._refused, set()
        known = {job.id: job.attempt for job in self._waiting.values()}
        rows = await self._pages(_QUEUE)
        changed = known.items() ^ {row["id"]: row["attempt"] for row in rows}.items()
        # A kept plan binds its job to a runner until the state moves or the runner is disabled: neither changes the job.
        planned = {row["id"] for row in rows if row["plan_attempt"] is not None}
        to_read = {job_id for job_id, _ in changed} | planned | refused
        await self._look_at(sorted(to_read - self._just_claimed.keys()))
        for module_id in self._of_module.keys() - self._busy:
            if head := self._head(module_id):
                self._line_up(head)

    # ---- jobs

    async def _pages(self, sql: LiteralString) -> list[Row]:
        """Everything, page by page: a long queue or a large fleet holds nobody up."""
        found: list[Row] = []
        while True:
            last = found[-1]["id"] if found else ""
            page = await self._db.read(lambda tx, last=last: tx.all(sql, last=last, count=PAGE_JOBS))
            found += page
            if len(page) < PAGE_JOBS:
                return found
            await asyncio.sleep(0)

    async def _look_at(self, job_ids: Sequence[str]) -> None:
        """These have been queued, or taken, or are gone."""
        for start in range(0, len(job_ids), MAX_JOBS_PER_READ):
            few = job_ids[start : start + MAX_JOBS_PER_READ]
            found = await self._db.read(lambda tx, few=few: _read_queued(tx, few))
            for job_id in set(few) - {job.id for job in found}:
                self._drop(job_id)
            await self._admit(found)
            await asyncio.sleep(0)

    async def _admit(self, queued: Iterable[Waiting]) -> None:
        for job in queued:
            known = self._waiting.get(job.id)
            if known == job:
                continue
            self._drop(job.id)
            self._waiting[job.id] = job
            insort(self._of_module[job.module_id], job, key=_turn)
            routes_of_module = self._routes[job.module_id]
            if _way(job) not in routes_of_module:
                routes_of_module[_way(job)] = await self._find_route(job)
            if job.module_id not in self._busy and self._head(job.module_id) is job:
                self._line_up(job)

    async def _find_route(self, job: Waiting) -> Route:
        """What all modules of a group have is read once and kept once: there may be thousands of runners, and of modules."""
        group = job.organization_id, job.group_path
        if group not in self._above:
            above = await self._db.read(lambda tx: routes.of_group(tx, *group))
            self._above[group] = next((known for known in self._above.values() if known == above), above)
        own = await self._db.read(lambda tx: routes.of_module(tx, job.module_id))
        return Route(routes.joined(own, self._above[group], job.runner_id), job.engine, job.runner_instance_name)

    def _route(self, job: Waiting) -> Route | None:
        return self._routes.get(job.module_id, {}).get(_way(job))

    def _head(self, module_id: str) -> Waiting | None:
        jobs = self._of_module.get(module_id)
        return jobs[0] if jobs else None

    def _line_up(self, job: Waiting) -> None:
        if job.id in self._offers:
            return
        route = self._route(job)
        if route is None:
            return  # it is being found, and then the job is lined up
        line = self._lines.get(route)
        if line is None:
            line = self._lines[route] = FairQueue()
            for tier in route.tiers:
                for runner_id in tier:
                    self._lines_of[runner_id].add(route)
        if job.id not in line:
            line.push(job)
        self._serve_line(route)

    def _drop(self, job_id: str) -> None:
        job = self._waiting.pop(job_id, None)
        if job is None:
            return
        jobs = self._of_module[job.module_id]
        del jobs[bisect_left(jobs, _turn(job), key=_turn)]
        if not jobs:
            del self._of_module[job.module_id]
        if (route := self._route(job)) and (line := self._lines.get(route)):
            line.discard(job_id)
        freed = self._withdraw(job_id)
        if job.module_id not in self._busy and (head := self._head(job.module_id)):
            self._line_up(head)
        self._serve_free(freed)

    def _changed(self, places: Iterable[str]) -> list[str]:
        """Groups or modules were made, edited or deleted: the jobs to read again, which are those of these modules only.

        What an edit can change of a job's way is in the job's own row. A group with modules in it keeps its runners: those
        are assigned by changes of runners, which wake everybody. One that was deleted may come back under its old path.
        """
        jobs: list[str] = []
        for place_id in places:
            if ids.is_id("grp", place_id):
                self._above.clear()
            elif place_id in self._of_module:
                jobs += [job.id for job in self._of_module[place_id]]
            else:
                self._routes.pop(place_id, None)
        return jobs

    async def _reroute(self) -> None:
        """Runners or assignments have changed, or wake-ups were lost: read everything again and line everybody up anew."""
        for job_id in list(self._offers):
            self._withdraw(job_id)
        for known in (self._above, self._routes, self._waiting, self._of_module, self._lines, self._lines_of):
            known.clear()
        await self.sweep()

    def claimed(self, job_id: str, module_id: str, session: RunnerSession) -> None:
        """A claim was won here."""
        self._just_claimed[job_id] = module_id, session
        self._busy.add(module_id)
        session.held.add(job_id)
        self._drop(job_id)

    def claiming(self, job_id: str) -> None:
        """A claim has come and is being decided."""
        if offer := self._offers.get(job_id):
            offer.claims += 1

    def missed(self, job_id: str, session: RunnerSession) -> None:
        """A claim was refused: somebody else has the job, or something was in the way; the sweep sorts out which."""
        session.offered.discard(job_id)
        self._refused.add(job_id)
        if offer := self._offers.get(job_id):
            offer.claims -= 1
        self._serve_free([session])

    def _free(self, job_id: str, module_id: str, instance_id: str) -> None:
        self._busy.discard(module_id)
        if session := self._registry.runners.get(instance_id):
            session.held.discard(job_id)
        if head := self._head(module_id):
            self._line_up(head)

    # ---- runners

    def serve(self, session: RunnerSession) -> None:
        """The instance may have room: let the lines that it can serve move.

        One that takes jobs and has no room moves none of them; one that takes none may leave its jobs to another tier.
        """
        if session.takes_jobs and session.free <= 0:
            return
        for route in list(self._lines_of.get(session.runner_id, ())):
            self._serve_line(route)

    def left(self, session: RunnerSession) -> None:
        """The instance is gone: what was offered to it is offered elsewhere.

        Its tier counts as online until the next sweep: a fleet that reconnects does not spill over to the next one.
        """
        if session.takes_jobs:
            self._online_elsewhere.add(session.runner_id)
        for job_id in list(session.offered):
            if offer := self._offers.get(job_id):
                self._again(offer)

    def _serve_free(self, sessions: Iterable[RunnerSession]) -> None:
        """What was offered to these is not offered any more: the slots that were kept for it are free for others."""
        for session in sessions:
            if session.free > 0:
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
            # Of a module that is busy it waits: when that is over, its head is lined up again.
            if self._waiting.get(job.id) is job and job.module_id not in self._busy:
                self._offer(Offer(job, route))

    def _best_tier(self, route: Route) -> tuple[str, ...]:
        """A full tier waits; a tier without anyone who is online and takes jobs is passed over."""
        return next((tier for tier in route.tiers if any(map(self._is_online, tier))), ())

    def _is_online(self, runner_id: str) -> bool:
        here = self._registry.of_runner.get(runner_id, {}).values()
        return runner_id in self._online_elsewhere or any(session.takes_jobs for session in here)

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
        """To the freest of a few: looking at all of them would cost more than it spreads the load better."""
        self._offers[offer.job.id] = offer
        found = sorted(islice(self._candidates(offer.route), 8), key=lambda session: -session.free)
        maker = self._registry.runners.get(offer.job.made_by or "")
        if maker is not None and maker.free > 0:
            found = [maker]  # it made the plan that the job goes on with
        self._send(offer, found[:1])
        offer.timer = asyncio.get_running_loop().call_later(WIDEN_AFTER, self._widen, offer)

    def _send(self, offer: Offer, sessions: Iterable[RunnerSession]) -> None:
        for session in sessions:
            session.offered.add(offer.job.id)
            offer.sessions.append(session)
            session.socket.post(messages.Offer(offer.job.id, offer.job.attempt))

    def _widen(self, offer: Offer) -> None:
        asked = {session.instance_id for session in offer.sessions}
        if offer.claims <= 0:
            others = (session for session in self._candidates(offer.route) if session.instance_id not in asked)
            self._send(offer, list(islice(others, max(1, len(asked)))))
            if len(offer.sessions) == len(asked):  # everybody who could take it has been asked
                offer.timer = asyncio.get_running_loop().call_later(OFFER_EXPIRES, self._again, offer)
                return
        offer.timer = asyncio.get_running_loop().call_later(WIDEN_AFTER, self._widen, offer)

    def _again(self, offer: Offer) -> None:
        """Nobody took it: back into its line."""
        freed = self._withdraw(offer.job.id)
        if self._waiting.get(offer.job.id) is offer.job and offer.job.module_id not in self._busy:
            self._line_up(offer.job)
        self._serve_free(freed)

    def _withdraw(self, job_id: str) -> list[RunnerSession]:
        """Take an offer back; those who had it may have a slot more now."""
        offer = self._offers.pop(job_id, None)
        if offer is None:
            return []
        if offer.timer is not None:
            offer.timer.cancel()
        for session in offer.sessions:
            session.offered.discard(job_id)
        return offer.sessions


def _turn(job: Waiting) -> tuple[int, float, str]:
    """Of the jobs of a module, the least runs first."""
    return -job.priority, job.queued_at, job.id


def _way(job: Waiting) -> tuple[str | None, ...]:
    """Jobs of a module for which this is the same have the same route."""
    return job.runner_id, job.engine, job.runner_instance_name


async def _read_queued(tx: Tx, job_ids: Sequence[str]) -> list[Waiting]:
    return rows_to(Waiting, await tx.each(_QUEUED, {"job_id": "text"}, [(job_id,) for job_id in job_ids]))
