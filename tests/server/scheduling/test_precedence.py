"""A nearer tier that goes, comes or drains before a claim is decided costs time, and never leaves a job without an owner."""

import pytest

from terracrew.server.db.seam import Database
from terracrew.server.jobs.attempts import claims
from terracrew.server.runners.eligibility import GRACE_SECONDS
from terracrew.server.scheduling.scheduler import Scheduler
from tests.builders.clock import ManualClock
from tests.builders.job_rows import (
    KEYS,
    Instance,
    JobRows,
    change_instances,
    change_jobs,
    change_modules,
    change_runners,
)
from tests.server.scheduling.recorded_claims import ClaimRecorder, record


class TwoTiers:
    """A queued job of a module in `network`, with one runner for that group and one for the whole organization."""

    def __init__(self, recorder: ClaimRecorder, near: Instance, far: Instance, module: str, job: str) -> None:
        self.recorder, self.near, self.far, self.module, self.job = recorder, near, far, module, job

    @property
    def rows(self) -> JobRows:
        return self.recorder.rows

    @property
    def scheduler(self) -> Scheduler:
        return self.recorder.scheduler


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the database."""
    return ManualClock(1_700_000_000)


@pytest.fixture
async def tiers(database: Database, clock: ManualClock) -> TwoTiers:
    rows = await JobRows.make(database)
    group = await rows.group("network")
    near, far = await rows.runner(assigned=False), await rows.runner()
    await rows.insert("assignments", runner_id=near.runner_id, place_id=group, kind="group", path="network")
    module = await rows.module("network/vpc", group)
    return TwoTiers(ClaimRecorder(rows), near, far, module, await rows.job(module))


@pytest.mark.feature("S2.claim")
async def test_a_farther_runner_cannot_claim_what_a_nearer_one_may_have(tiers: TwoTiers) -> None:
    """A farther runner that was assigned could claim any job, although it was not meant for it."""
    assert await tiers.far.claim(tiers.job) is None
    await change_runners(tiers.rows.db, tiers.near.runner_id, is_disabled=True)
    assert await tiers.far.claim(tiers.job) is not None


@pytest.mark.feature("S2.online")
async def test_a_nearer_runner_that_drains_is_waited_for_no_longer(tiers: TwoTiers) -> None:
    await change_instances(tiers.rows.db, tiers.near.id, is_draining=True)
    assert await tiers.near.claim(tiers.job) is None
    assert await tiers.far.claim(tiers.job) is not None


@pytest.mark.feature("S2.online")
async def test_a_nearer_tier_that_goes_before_its_claim_is_waited_for_and_then_the_farther_one_gets_the_job(
    tiers: TwoTiers, clock: ManualClock
) -> None:
    (near, its), (_, theirs) = tiers.recorder.connect(tiers.near), tiers.recorder.connect(tiers.far)
    await tiers.scheduler.sweep()
    assert (its.claims, theirs.claims) == ([tiers.job], [])
    tiers.recorder.registry.remove(near)
    tiers.scheduler.left(near)
    await tiers.near.disconnect()
    assert await tiers.near.claim(tiers.job) is None
    tiers.scheduler.unclaimed(tiers.job)
    clock.advance(GRACE_SECONDS - 1)
    await tiers.scheduler.sweep()
    assert theirs.claims == []
    assert await tiers.far.claim(tiers.job) is None, "the claim waits for as long as the scheduler"
    clock.advance(2)
    await tiers.scheduler.sweep()
    assert theirs.claims == [tiers.job]
    assert await tiers.far.claim(tiers.job) is not None


@pytest.mark.feature("S2.order")
async def test_a_nearer_tier_that_comes_before_the_claim_gets_the_job_after_the_next_sweep(
    tiers: TwoTiers, clock: ManualClock
) -> None:
    """The invariant: a refused claim costs time, and then the job is claimed for an instance whose claim succeeds."""
    await tiers.near.disconnect()
    clock.advance(GRACE_SECONDS + 1)
    _, theirs = tiers.recorder.connect(tiers.far)
    await tiers.scheduler.sweep()
    assert theirs.claims == [tiers.job]
    await change_instances(tiers.rows.db, tiers.near.id, is_connected=True)  # on another server
    assert await tiers.far.claim(tiers.job) is None
    tiers.scheduler.unclaimed(tiers.job)
    _, its = tiers.recorder.connect(tiers.near)  # and then on this one
    await tiers.scheduler.step({("queue", "")})
    assert (its.claims, theirs.claims) == ([tiers.job], [tiers.job])
    assert await tiers.near.claim(tiers.job) is not None


@pytest.mark.feature("S2.configured")
async def test_configured_precedence_waits_for_a_nearer_runner_that_is_offline(
    tiers: TwoTiers, clock: ManualClock
) -> None:
    strict = Scheduler(tiers.rows.db, tiers.recorder.registry, record, "configured")
    _, theirs = tiers.recorder.connect(tiers.far)
    await tiers.near.disconnect()
    clock.advance(GRACE_SECONDS + 1)
    await strict.sweep()
    assert theirs.claims == []
    tiers.rows.claim = claims.claims(tiers.rows.db, KEYS, "configured")
    assert await tiers.far.claim(tiers.job) is None
    await tiers.rows.run("DELETE FROM assignments WHERE runner_id = :id", id=tiers.near.runner_id)
    assert await tiers.far.claim(tiers.job) is not None


@pytest.mark.feature("S4.alone")
async def test_the_name_of_an_instance_alone_selects_the_nearest_runner_that_has_one(tiers: TwoTiers) -> None:
    await change_modules(tiers.rows.db, runner_instance_name="two")
    await change_instances(tiers.rows.db, tiers.far.id, name="two")
    (_, its), (_, theirs) = tiers.recorder.connect(tiers.near), tiers.recorder.connect(tiers.far, name="two")
    await tiers.scheduler.sweep()
    assert (its.claims, theirs.claims) == ([], [tiers.job]), "the nearer runner has no such instance"
    assert await tiers.near.claim(tiers.job) is None
    await change_instances(tiers.rows.db, tiers.near.id, name="two")
    assert await tiers.far.claim(tiers.job) is None, "now the nearer runner has one, too"
    assert await tiers.near.claim(tiers.job) is not None


@pytest.mark.feature("S5.tags")
async def test_only_a_runner_with_all_tags_of_the_module_gets_a_job_and_can_claim_it(tiers: TwoTiers) -> None:
    await change_modules(tiers.rows.db, tags=["eu", "gpu"])
    await change_runners(tiers.rows.db, tags=["gpu"])
    near, its = tiers.recorder.connect(tiers.near, tags=["gpu"])
    await tiers.scheduler.sweep()
    assert its.claims == []
    assert await tiers.near.claim(tiers.job) is None
    await change_runners(tiers.rows.db, tags=["gpu", "eu", "x"])
    near.tags = frozenset({"gpu", "eu", "x"})
    tiers.scheduler.serve(near)
    assert its.claims == [tiers.job]
    assert await tiers.near.claim(tiers.job) is not None


@pytest.mark.feature("J10.priority")
async def test_a_free_slot_goes_to_the_highest_priority_of_all_lines(tiers: TwoTiers) -> None:
    """Each line was served to its end before the next one, so a job with other tags waited whatever its priority was."""
    rows = tiers.rows
    _, socket = tiers.recorder.connect(tiers.far, slots=1, tags=["gpu"])
    await rows.run("DELETE FROM assignments WHERE runner_id = :id", id=tiers.near.runner_id)
    modules = [await rows.module() for _ in range(6)]
    jobs = [await rows.job(module) for module in modules]
    await change_modules(rows.db, modules[4], tags=["gpu"])
    await change_jobs(rows.db, jobs[4], priority=5)
    await tiers.scheduler.sweep()
    assert socket.claims == [jobs[4]]
