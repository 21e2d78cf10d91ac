"""An approved job goes to the runner that made its plan, for as long as that plan can be used; then to anybody."""

from typing import Any

import pytest

from terracrew.protocol.events import KeptPlan, Result
from terracrew.protocol.messages import AttemptRef
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.principals.model import Principal
from terracrew.testing.job_rows import KEYS, Instance, JobRows, begin
from tests.server.jobs.deliveries import RUNNING, delivery, fact
from tests.server.jobs.offers import Socket, Stage

pytestmark = pytest.mark.feature("S3", "J8")


class Approved:
    """An approved job whose plan was made by a runner that is offline; another runner is connected."""

    def __init__(self, stage: Stage, maker: Instance, socket: Socket, module: str, job: str) -> None:
        self.stage, self.maker, self.socket, self.module, self.job = stage, maker, socket, module, job

    @classmethod
    async def make(cls, db: Database) -> "Approved":
        stage = Stage(await JobRows.make(db))
        world = stage.world
        maker = await world.runner()
        module = await world.module()
        job = await world.job(module, kind="APPLY")
        await db.write(lambda tx: tx.run("UPDATE jobs SET needs_approval = true WHERE id = :id", id=job))
        await maker.has(job)
        take, ref = ingest(db, KEYS), AttemptRef(job, 1)
        await take(delivery(ref, 1, RUNNING))
        await begin(db, ref, 0)
        await take(delivery(ref, 2, fact(Result("WAITING", "", kept=KeptPlan(0, "ab", 2, "/workspaces/x")))))
        admin = Principal("user", "usr_1", "olga", world.organization, is_system_admin=True)
        await approvals.approve(db, Registry(), admin, job, 1)
        await db.write(lambda tx: tx.run("UPDATE instances SET is_connected = false WHERE id = :id", id=maker.id))
        _, socket = stage.connect(await world.runner())
        await stage.scheduler.sweep()
        assert socket.offers == [], "no other runner can go on with this plan"
        return cls(stage, maker, socket, module, job)

    async def set(self, sql: Any, **params: Any) -> None:
        await self.stage.world.db.write(lambda tx: tx.run(sql, **params))


@pytest.fixture
async def approved(database: Database) -> Approved:
    return await Approved.make(database)


async def test_a_state_that_moved_frees_the_job_from_the_plans_runner(approved: Approved) -> None:
    """An approved job whose plan had gone stale stayed routed to the offline runner that had made the plan."""
    await approved.set("UPDATE modules SET state_version = 1 WHERE id = :id", id=approved.module)
    await approved.stage.scheduler.step(
        {("freed", f"job_x {approved.module} -")}
    )  # adopt, discard, or a job that ended
    assert approved.socket.offers == [approved.job]


async def test_a_moved_state_is_noticed_without_a_wake_up(approved: Approved) -> None:
    """The sweep compared job and attempt only, neither of which changes when the plan goes stale."""
    await approved.set("UPDATE modules SET state_version = 1 WHERE id = :id", id=approved.module)
    await approved.stage.scheduler.sweep()
    assert approved.socket.offers == [approved.job]


async def test_a_plans_runner_that_was_disabled_frees_its_job(approved: Approved) -> None:
    await approved.set("UPDATE runners SET is_disabled = true WHERE id = :id", id=approved.maker.runner_id)
    await approved.stage.scheduler.step({("queue", "")})
    assert approved.socket.offers == [approved.job]


async def test_a_plans_runner_that_was_enabled_again_has_its_job_back(approved: Approved) -> None:
    await approved.set("UPDATE runners SET is_disabled = true WHERE id = :id", id=approved.maker.runner_id)
    await approved.stage.scheduler.sweep()
    assert approved.socket.offers == [approved.job]
    await approved.set("UPDATE runners SET is_disabled = false WHERE id = :id", id=approved.maker.runner_id)
    await approved.stage.scheduler.sweep()
    _, its = approved.stage.connect(approved.maker)
    approved.stage.scheduler.serve(approved.stage.registry.runners[approved.maker.id])
    assert its.offers == [approved.job]


async def test_a_plans_runner_that_was_removed_frees_its_job(approved: Approved) -> None:
    runner_id = approved.maker.runner_id
    await approved.set("DELETE FROM assignments WHERE runner_id = :id", id=runner_id)
    await approved.set("DELETE FROM instances WHERE runner_id = :id", id=runner_id)
    await approved.set("DELETE FROM runners WHERE id = :id", id=runner_id)
    await approved.stage.scheduler.step({("queue", "")})
    assert approved.socket.offers == [approved.job]


async def test_a_job_that_a_canceled_one_stood_before_is_freed_too(approved: Approved) -> None:
    """Only the first job of a freed module was read again; the one behind it kept its old route."""
    world = approved.stage.world
    first = await world.job(approved.module)
    await approved.set("UPDATE jobs SET priority = 5 WHERE id = :id", id=first)
    await approved.stage.scheduler.step({("queue", first)})
    assert approved.socket.offers == [first]
    await approved.set("UPDATE modules SET state_version = 1 WHERE id = :id", id=approved.module)
    await approved.stage.scheduler.step({("freed", f"job_x {approved.module} -")})
    await approved.set("UPDATE jobs SET status = 'CANCELED', finished_at = created_at WHERE id = :id", id=first)
    await approved.stage.scheduler.step({("queue", first)})
    await approved.stage.scheduler.sweep()
    assert approved.socket.offers == [first, approved.job]
