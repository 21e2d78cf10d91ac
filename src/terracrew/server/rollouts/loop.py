"""Moves roll-outs on: it starts the updates of the next wave, notes how they ended, and begins automatic roll-outs."""

import asyncio
from collections.abc import Awaitable, Callable, Collection

from terracrew.api.fleet_jobs import FleetJob, plain_text
from terracrew.api.rollouts import Rollout, RolloutRunner, RolloutRunnerStatus
from terracrew.errors import Conflict, Superseded, TerracrewError, Unavailable
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.fleet_jobs import reads as fleet_reads
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.releases import rules as release_rules
from terracrew.server.releases import store as releases
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import decide, reads, service, store
from terracrew.server.rollouts.decide import End, Queue, ReleaseFacts, RunnerFacts, Save
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.supervise import FailedRows

SWEEP_SECONDS = 60.0
"""How long the loop waits at most for something to change."""
MAX_AWAY_SECONDS = 300.0
"""How long a roll-out waits for a self-hosted runner that has disconnected. After that, it is one that a person updates."""
PAGE_ROWS = 100
"""How many roll-outs or organizations are read at a time. All are looked at in each step: some wait for a person for weeks."""
MAX_STEPS_PER_ROLLOUT = 10_000
MAX_QUEUED_PER_TRANSACTION = 10
PAUSE_SECONDS = 0.2
"""How long the loop waits after a step with roll-outs, so that one step answers many wake-ups of the jobs that they have queued."""
_S = RolloutRunnerStatus
log = get_logger("terracrew.rollouts")


class Rollouts:
    """Several servers may run it on one database: each step is decided while the roll-out's row is locked, and a step that queues
    an update writes the job and the runner's row in one transaction."""

    def __init__(self, db: Database, rules: RolloutRules) -> None:
        self._db, self._rules = db, rules
        self._failed = FailedRows("roll-outs")
        self._failed_starts = FailedRows("automatic roll-outs")

    async def run(self) -> None:
        with self._db.listen("rollouts", "fleet", "releases") as wakeups:
            while True:
                if await self.step():
                    await asyncio.sleep(PAUSE_SECONDS)
                await wakeups.get(timeout=SWEEP_SECONDS)

    async def step(self) -> int:
        """Do everything that can be done now, and return how many roll-outs there are that have not come to their end."""
        if self._rules.updates_cloud_runners:
            await self._start_automatic()
        found = await self._all(store.at_work)
        for rollout_id in sorted(self._failed.due(found)):
            with self._failed.handling(rollout_id):
                for _ in range(MAX_STEPS_PER_ROLLOUT):
                    if not await self.advance(rollout_id):
                        break
        return len(found)

    async def _start_automatic(self) -> None:
        latest = await self._db.read(self._latest)
        if latest is None:
            return
        found = await self._all(lambda tx, after, count: reads.awaiting(tx, latest, after, count))
        for organization_id in sorted(self._failed_starts.due(found)):
            with self._failed_starts.handling(organization_id):
                await self._start_in(organization_id)

    async def _start_in(self, organization_id: str) -> None:
        try:
            await self._db.write(lambda tx: service.start_automatic(tx, self._rules, organization_id))
        except Conflict as error:
            if error.details.get("constraint") != "rollouts_open":
                raise

    async def _latest(self, tx: Tx) -> str | None:
        latest = release_rules.latest(await releases.versions(tx), self._rules.server_version)
        return None if latest is None else latest.version

    async def _all(self, page: Callable[[Tx, str, int], Awaitable[list[str]]]) -> list[str]:
        """Return all ids that pages of them have."""
        found: list[str] = []
        while True:
            last = found[-1] if found else ""
            more = await self._db.read(lambda tx, last=last: page(tx, last, PAGE_ROWS))
            found += more
            if len(more) < PAGE_ROWS:
                return found

    async def advance(self, rollout_id: str) -> bool:
        """Take some of the next steps of a roll-out in one transaction. Returns False if there was none to take."""
        queued: list[RolloutRunner] = []

        async def work(tx: Tx) -> bool:
            queued.clear()
            return await self._advance(tx, rollout_id, queued)

        try:
            return await self._db.write(work)
        except (Unavailable, Superseded):
            raise
        except TerracrewError as error:
            if not queued:
                raise
            if (
                "job_id" not in error.details
            ):  # otherwise somebody has just queued another job for this runner, which is waited for
                runner, words = queued[-1], error.message
                await self._db.write(lambda tx: self._refuse(tx, runner, words))
            return True

    async def _advance(self, tx: Tx, rollout_id: str, queued: list[RolloutRunner]) -> bool:
        rollout = await store.hold(tx, rollout_id)
        members = {each.runner_id: each for each in await store.runners(tx, rollout_id)}
        release = await releases.find(tx, rollout.version)
        due = {each.runner_id for each in decide.due(rollout, list(members.values()))}
        facts = await _runner_facts(tx, due)
        updating = [each.job_id for each in members.values() if each.status is _S.UPDATING and each.job_id]
        jobs = await fleet_reads.some(tx, updating)
        about = await self._release_facts(tx, rollout, release)
        has_changed = False
        while len(queued) < MAX_QUEUED_PER_TRANSACTION:
            rows = list(members.values())
            if not due.issuperset(each.runner_id for each in decide.due(rollout, rows)):
                return True  # it is the turn of another wave, about whose runners nothing was read
            match decide.step(rollout, rows, facts, jobs, about, tx.moment):
                case None:
                    return has_changed
                case Save(before, after):
                    await store.save_runner(tx, before, after)
                    members[after.runner_id] = after
                case End(after):
                    await store.save(tx, rollout, after)
                    await service.record(
                        tx, SYSTEM, "rollout.end", after, status=after.status.value, reason=after.stop_reason
                    )
                    rollout = after
                case Queue(runner, wave):
                    assert release is not None
                    queued.append(runner)
                    members[runner.runner_id], job = await self._queue(tx, rollout, release, runner, wave)
                    jobs |= {job.id: job} if job else {}
            has_changed = True
        return has_changed

    async def _queue(
        self, tx: Tx, rollout: Rollout, release: Release, runner: RolloutRunner, wave: int
    ) -> tuple[RolloutRunner, FleetJob | None]:
        """Queue the update of a runner, unless only a person can update it by now."""
        now, job = tx.moment, None
        record = (await reads.states(tx, [runner.runner_id]))[runner.runner_id].runner
        by_hand = (await self._rules.updaters.by_hand(tx, [record], release)).get(record.id)
        if by_hand is not None:
            after = runner.to(_S.BY_HAND, now, words=by_hand.reason, command=by_hand.command)
        else:
            starter = Principal("system", rollout.started_by, rollout.started_by_name, None)
            job = await self._rules.updaters.update(tx, starter, record, rollout.version)
            after = runner.to(_S.UPDATING, now, wave=wave, job_id=job.id, job_number=job.number)
        await store.save_runner(tx, runner, after)
        return after, job

    async def _refuse(self, tx: Tx, runner: RolloutRunner, words: str) -> None:
        """Note that a runner could not be updated, unless somebody has changed it meanwhile."""
        await store.hold(tx, runner.rollout_id)
        after = runner.to(_S.FAILED, tx.moment, words=plain_text(words))
        if runner in await store.runners(tx, runner.rollout_id):
            await store.save_runner(tx, runner, after)

    async def _release_facts(self, tx: Tx, rollout: Rollout, release: Release | None) -> ReleaseFacts:
        if release is None:
            return ReleaseFacts(withdrawn_reason="")
        latest = release_rules.latest(await releases.versions(tx), self._rules.server_version)
        is_newer = latest is not None and bool(release_rules.is_lower(rollout.version, latest.version))
        withdrawn = release.withdrawn_reason if release.is_withdrawn else None
        return ReleaseFacts(withdrawn, latest.version if latest is not None and is_newer else "")


async def _runner_facts(tx: Tx, runner_ids: Collection[str]) -> dict[str, RunnerFacts]:
    open_jobs = await reads.open_jobs(tx, runner_ids)
    away = await reads.away(tx, runner_ids, tx.now - MAX_AWAY_SECONDS)
    return {
        each.runner.id: RunnerFacts(
            each.runner.path,
            is_disabled=each.runner.is_disabled,
            is_removing=each.is_removing,
            version=each.version,
            open_job=open_jobs.get(each.runner.id),
            is_away=each.runner.id in away,
        )
        for each in (await reads.states(tx, runner_ids)).values()
    }
