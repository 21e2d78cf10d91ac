"""Builds runners and releases, and moves the jobs of the fleet that update runners as a server would."""

from collections.abc import Mapping, Sequence

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, NewFleetJob
from terracrew.api.rollouts import NewRollout, Rollout, RolloutRunner, RolloutView
from terracrew.api.runners import Runner
from terracrew.server.db.seam import Database, Tx
from terracrew.server.fleet_jobs import service as fleet_jobs
from terracrew.server.fleet_jobs import store as fleet_store
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.releases import service as releases
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import service, store
from terracrew.server.rollouts.loop import Rollouts
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.wording.update_words import ByHand
from tests.builders.job_rows import JobRows, change_deployments, change_runners
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.releases.release_rows import new_release

OLD, NEW, NEWER = "0.1.0-rc.1", "0.1.0-rc.2", "0.1.0-rc.3"


class QueuedUpdates:
    """Queues the jobs; nobody runs them, so that a test decides how each ends. `refused` has runners whose update is refused."""

    def __init__(self) -> None:
        self.hand: dict[str, ByHand] = {}
        self.refused: dict[str, Exception] = {}

    async def by_hand(self, tx: Tx, runners: Sequence[Runner], release: Release) -> Mapping[str, ByHand]:
        del tx, release
        return {each.id: self.hand[each.path] for each in runners if each.path in self.hand}

    async def update(self, tx: Tx, who: Principal, runner: Runner, version: str) -> FleetJob:
        if runner.path in self.refused:
            raise self.refused[runner.path]
        assert runner.organization_id is not None
        assert runner.group_id is not None
        new = NewFleetJob(
            type=FleetJobType.UPDATE_WORKER,
            organization_id=runner.organization_id,
            group_id=runner.group_id,
            target_id=runner.id,
            target_name=runner.path,
            runner_id=runner.id,
            identity_id="cid_1",
            spec={"version": version},
        )
        return await fleet_jobs.create(tx, who, new)


class RolloutRows:
    def __init__(self, rows: JobRows) -> None:
        self.rows, self.updates = rows, QueuedUpdates()
        self.rules = RolloutRules(updaters=self.updates, server_version=OLD)
        self.loop = Rollouts(rows.db, self.rules)
        self.admin = Principal("user", "usr_1", "marta", rows.organization, is_system_admin=True)
        self._groups: dict[str, str] = {"": rows.root}

    @property
    def db(self) -> Database:
        return self.rows.db

    async def runner(self, path: str, version: str = OLD) -> str:
        """A cloud-hosted runner that sleeps, with what was deployed for it."""
        group = path.rpartition("/")[0]
        if group not in self._groups:
            self._groups[group] = await self.rows.group(group)
        runner_id = await cloud_runner(self.rows)
        await change_runners(
            self.rows.db, runner_id, path=path, name=path.rpartition("/")[2], group_id=self._groups[group]
        )
        await self.deployed(runner_id, version)
        return runner_id

    async def deployed(self, runner_id: str, version: str) -> None:
        """Change what was deployed for a runner. Nothing was for a self-hosted one."""
        if await self.db.read(
            lambda tx: tx.one("SELECT epoch FROM cloud_deployments WHERE runner_id = :id", id=runner_id)
        ):
            await change_deployments(self.db, runner_id, version=version)

    async def publish(self, version: str = NEW, *, is_breaking: bool = False) -> None:
        release = new_release(version, is_breaking=is_breaking)
        await self.db.write(lambda tx: releases.publish(tx, SYSTEM, release))

    async def start(self, **wanted: object) -> RolloutView:
        new = NewRollout(**wanted)  # pyright: ignore[reportArgumentType]
        return await self.db.write(lambda tx: service.start(tx, self.admin, self.rules, new))

    async def load(self, rollout_id: str) -> Rollout:
        found = await self.db.read(lambda tx: store.get(tx, rollout_id))
        assert found is not None
        return found

    async def members(self, rollout_id: str) -> list[RolloutRunner]:
        return await self.db.read(lambda tx: store.runners(tx, rollout_id))

    async def statuses(self, rollout_id: str) -> dict[str, str]:
        return {each.path: each.status.value for each in await self.members(rollout_id)}

    async def jobs(self) -> list[FleetJob]:
        """Return all jobs that update runners, the oldest first."""
        found = await self.db.read(lambda tx: tx.all("SELECT id FROM fleet_jobs ORDER BY id"))
        jobs = [await self.db.read(lambda tx, row=row: fleet_store.get(tx, row["id"])) for row in found]
        return [each for each in jobs if each is not None]

    async def end(self, path: str, error: str = "") -> None:
        """End the open job of a runner as its server would: with success, or with an error."""
        job = next(each for each in await self.jobs() if each.target_name == path and not each.is_terminal)

        async def work(tx: Tx) -> None:
            now = tx.moment
            claimed = job.to(FleetJobStatus.CLAIMED, now, server_id="srv_1", lease_until=now)
            begun = claimed.to(FleetJobStatus.PROCESSING, now, started_at=now)
            ended = begun.to(FleetJobStatus.FAILED if error else FleetJobStatus.SUCCEEDED, now, error=error)
            for before, after in ((job, claimed), (claimed, begun), (begun, ended)):
                await fleet_store.save(tx, before, after)

        await self.db.write(work)
        if not error:
            await self.deployed(job.target_id, job.spec["version"])
