"""An approved job goes to the runner that made its plan while that plan can be used, and then to any runner."""

import pytest

from terracrew.server.db.seam import Database
from terracrew.server.db.topics import FreedKey
from terracrew.server.jobs import service
from tests.builders.job_rows import change_jobs, change_modules, change_runners
from tests.server.jobs.waiting_jobs import Waiting
from tests.server.scheduling.recorded_claims import ClaimRecorder, Socket

pytestmark = pytest.mark.feature("S3.approval")


class Approved:
    """An approved job whose plan was made by a runner that is offline; another runner is connected."""

    def __init__(self, recorder: ClaimRecorder, waiting: Waiting, socket: Socket) -> None:
        self.stage, self.maker, self.socket = recorder, waiting.runner, socket
        self.module, self.job, self.admin = waiting.module, waiting.id, waiting.admin
        self.db = waiting.rows.db

    @classmethod
    async def make(cls, db: Database) -> "Approved":
        waiting = await Waiting.make(db)
        await waiting.approve()
        await waiting.runner.disconnect()
        recorder = ClaimRecorder(waiting.rows)
        _, socket = recorder.connect(await waiting.rows.runner())
        await recorder.scheduler.sweep()
        assert socket.claims == [], "no other runner can go on with this plan"
        return cls(recorder, waiting, socket)


@pytest.fixture
async def approved(database: Database) -> Approved:
    return await Approved.make(database)


@pytest.mark.feature("J8.same")
async def test_a_state_that_moved_frees_the_job_from_the_plans_runner(approved: Approved) -> None:
    """An approved job whose plan had gone stale stayed routed to the offline runner that had made the plan."""
    await change_modules(approved.db, approved.module, state_version=1)
    freed = ("freed", FreedKey("job_x", approved.module).encode())  # as adopt, discard, and the end of a job say it
    await approved.stage.scheduler.step({freed})
    assert approved.socket.claims == [approved.job]


@pytest.mark.feature("J8.same")
async def test_a_moved_state_is_noticed_without_a_wake_up(approved: Approved) -> None:
    """The sweep compared job and attempt only, neither of which changes when the plan goes stale."""
    await change_modules(approved.db, approved.module, state_version=1)
    await approved.stage.scheduler.sweep()
    assert approved.socket.claims == [approved.job]


@pytest.mark.feature("J8.same")
async def test_a_plans_runner_that_was_disabled_frees_its_job(approved: Approved) -> None:
    await change_runners(approved.db, approved.maker.runner_id, is_disabled=True)
    await approved.stage.scheduler.step({("queue", "")})
    assert approved.socket.claims == [approved.job]


@pytest.mark.feature("J8.same")
@pytest.mark.parametrize("is_told", [True, False])
async def test_a_plans_runner_that_is_no_longer_assigned_frees_its_job(approved: Approved, is_told: bool) -> None:
    """Nobody could claim the job, and being the first of its module, it held up every later one until a person canceled it."""
    rows, maker = approved.stage.rows, approved.maker
    other = await rows.runner()
    assert await other.claim(approved.job, 2) is None
    await approved.stage.rows.run("DELETE FROM assignments WHERE runner_id = :id", id=maker.runner_id)
    if is_told:
        await approved.stage.scheduler.step({("assignments", maker.runner_id)})
    else:
        await approved.stage.scheduler.sweep()
    assert approved.socket.claims == [approved.job]
    assert await maker.claim(approved.job, 2) is None
    granted = await other.has(approved.job, 2)
    assert granted.spec.resume is None, (
        "another runner must not see the plan, so it makes a new one, which is asked about again"
    )


@pytest.mark.feature("J8.same")
async def test_a_plans_runner_that_was_enabled_again_has_its_job_back(approved: Approved) -> None:
    await change_runners(approved.db, approved.maker.runner_id, is_disabled=True)
    await approved.stage.scheduler.sweep()
    assert approved.socket.claims == [approved.job]
    await change_runners(approved.db, approved.maker.runner_id, is_disabled=False)
    approved.stage.scheduler.unclaimed(approved.job)
    await approved.stage.scheduler.sweep()
    _, its = approved.stage.connect(approved.maker)
    approved.stage.scheduler.serve(approved.stage.registry.runners[approved.maker.id])
    assert its.claims == [approved.job]


@pytest.mark.feature("J8.same")
async def test_a_plans_runner_that_was_removed_frees_its_job(approved: Approved) -> None:
    runner_id = approved.maker.runner_id
    await approved.stage.rows.run("DELETE FROM assignments WHERE runner_id = :id", id=runner_id)
    await approved.stage.rows.run("DELETE FROM instances WHERE runner_id = :id", id=runner_id)
    await approved.stage.rows.run("DELETE FROM runners WHERE id = :id", id=runner_id)
    await approved.stage.scheduler.step({("queue", "")})
    assert approved.socket.claims == [approved.job]


async def test_a_job_that_a_canceled_one_stood_before_is_freed_too(approved: Approved) -> None:
    """Only the first job of a freed module was read again; the one behind it kept its old route."""
    rows = approved.stage.rows
    first = await rows.job(approved.module)
    await change_jobs(approved.db, first, priority=5)
    await approved.stage.scheduler.step({("queue", first)})
    assert approved.socket.claims == [first]
    await change_modules(approved.db, approved.module, state_version=1)
    await approved.stage.scheduler.step({("freed", FreedKey("job_x", approved.module).encode())})
    await service.cancel(rows.db, approved.admin, first, "after_step")
    await approved.stage.scheduler.step({("queue", first)})
    await approved.stage.scheduler.sweep()
    assert approved.socket.claims == [first, approved.job]


@pytest.mark.parametrize("is_told", [True, False], ids=["by a person", "by the state"])
async def test_a_job_that_its_plan_binds_no_longer_stays_in_the_line_of_its_module(
    database: Database, is_told: bool
) -> None:
    """The job was put into the same line twice and compared with itself, which failed, and everything was read again."""
    waiting = await Waiting.make(database)
    maker, rows = waiting.runner, waiting.rows
    await change_modules(rows.db, waiting.module, runner_id=maker.runner_id)
    await waiting.approve()
    await maker.disconnect()
    recorder = ClaimRecorder(rows)
    await recorder.scheduler.sweep()
    if is_told:
        for is_disabled in (True, False):
            await change_runners(rows.db, maker.runner_id, is_disabled=is_disabled)
            await recorder.scheduler.step({("assignments", maker.runner_id)})
    else:
        await change_modules(rows.db, waiting.module, state_version=1)
        await recorder.scheduler.step({("freed", FreedKey("job_x", waiting.module).encode())})
    session, socket = recorder.connect(maker)
    recorder.scheduler.serve(session)
    assert socket.claims == [waiting.id]
