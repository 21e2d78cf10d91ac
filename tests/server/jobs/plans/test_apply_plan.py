"""The plan of a PLAN job is applied as it was shown, at most once, or a person looks again (ADR 0073)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from terracrew.api.jobs import Job, NewJob
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.protocol.events import PlanSummary, ResourceChange, Result
from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Database
from terracrew.server.jobs import decide, service
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.model import Principal
from terracrew.server.retention import kept_plans
from terracrew.server.tree.modules import contents
from terracrew.server.tree.modules.contents import Content
from tests.builders.deliveries import DONE, delivery, fact
from tests.builders.job_rows import KEYS, begin, begin_code, change_jobs, change_modules, change_plans
from tests.server.jobs.plans.planned_jobs import ADDS_ONE, HASH, NOTHING, Planned

pytestmark = pytest.mark.feature("J8.plan-first")

REMOVES_ALL = PlanSummary(destroy=2, existing=2, resources=[ResourceChange("terraform_data.a", "delete")])


@pytest.fixture
async def planned(database: Database) -> Planned:
    return await Planned.make(database)


async def test_a_plan_that_was_seen_is_applied_by_the_runner_that_made_it(planned: Planned) -> None:
    oscar = await planned.somebody("oscar")
    job = await planned.apply(oscar)
    assert (job.type, job.status, job.attempt, job.plan_attempt) == ("APPLY", "QUEUED", 1, 0)
    assert (job.plan, job.plan_job_id, job.created_by) == (ADDS_ONE, planned.plan_job, "usr_oscar")
    other = await planned.rows.runner()
    assert await other.claim(job.id) is None
    resume = (await planned.runner.has(job.id)).spec.resume
    assert resume is not None
    assert (resume.attempt, resume.made_job_id, resume.made_attempt) == (0, planned.plan_job, 1)
    assert (resume.plan_sha256, resume.path) == (HASH, f"/workspaces/{planned.plan_job}.1")


async def test_it_begins_with_the_hash_of_the_plan_that_was_shown_and_with_no_other(planned: Planned) -> None:
    job = await planned.apply(await planned.somebody("oscar"))
    ref = await planned.start(job)
    refused = await begin(planned.rows.db, ref, 0, 0, plan_sha256="ef" * 32)
    assert getattr(refused, "code", "begun") == "plan_changed"
    allowed = await begin(planned.rows.db, ref, 0, 0, plan_sha256=HASH)
    assert getattr(allowed, "code", "begun") == "begun"
    assert (await planned.plan_row(job.id, 0)).applied_by == 1


async def test_a_plan_is_taken_by_one_job(planned: Planned) -> None:
    oscar, ines = await planned.somebody("oscar"), await planned.somebody("ines")
    job = await planned.apply(oscar)
    assert (await planned.apply(oscar)).id == job.id  # the answer may have been lost
    with pytest.raises(Conflict, match=f"job {job.number} has taken this plan already"):
        await planned.apply(ines)
    assert await planned.begin(job) == "begun"
    with pytest.raises(Conflict, match="has taken"):
        await planned.apply(ines)


async def test_of_many_who_apply_a_plan_at_once_one_does(planned: Planned) -> None:
    people = [await planned.somebody(f"oscar{n}") for n in range(5)]
    made = await asyncio.gather(*(planned.apply(each) for each in people), return_exceptions=True)
    assert len([each for each in made if isinstance(each, Job)]) == 1, made
    assert all(isinstance(each, Job | Conflict) for each in made), made


async def test_a_plan_whose_state_has_changed_is_refused(planned: Planned) -> None:
    oscar = await planned.somebody("oscar")
    await planned.change_state(oscar)
    with pytest.raises(Conflict, match="the state of the module has changed since the plan of job 1 was made"):
        await planned.apply(oscar)


async def test_if_another_apply_runs_in_between_the_job_plans_again_and_waits_for_an_approval(planned: Planned) -> None:
    oscar = await planned.somebody("oscar")
    job = await planned.apply(oscar)
    await change_jobs(planned.rows.db, job.id, priority=-1)
    await planned.change_state(oscar)
    granted = await planned.runner.has(job.id)
    assert granted.spec.resume is None
    ref = planned.runner.ref(job.id)
    assert await begin_code(planned.rows.db, ref, 1) == "approval"


async def test_a_state_that_changes_while_the_plan_is_restored_is_noticed(planned: Planned) -> None:
    job = await planned.apply(await planned.somebody("oscar"))
    ref = await planned.start(job)
    await change_modules(planned.rows.db, planned.module, state_version=7)
    refused = await begin(planned.rows.db, ref, 0, 0, plan_sha256=HASH)
    assert getattr(refused, "code", "begun") == "state_moved"
    assert await begin_code(planned.rows.db, ref, 7) == "approval"


async def test_a_plan_whose_source_has_changed_is_refused(planned: Planned) -> None:
    await change_modules(planned.rows.db, planned.module, source={"kind": "local", "path": "/srv/modules/y"})
    with pytest.raises(Conflict, match="the source of the module has changed"):
        await planned.apply(await planned.somebody("oscar"))


async def change_inputs(planned: Planned) -> None:
    await planned.rows.db.write(lambda tx: contents.save(tx, KEYS, planned.module, Content({"a": 1}, {})))


async def change_path(planned: Planned) -> None:
    await change_modules(planned.rows.db, planned.module, path="elsewhere")


@pytest.mark.parametrize("change", [change_inputs, change_path])
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_plan_whose_inputs_or_path_have_changed_is_not_applied(
    planned: Planned, when: str, change: Callable[[Planned], Awaitable[None]]
) -> None:
    oscar = await planned.somebody("oscar")
    if when == "before":
        await change(planned)
        with pytest.raises(Conflict, match="an input, a hook, a flag or another setting of the module has changed"):
            await planned.apply(oscar)
        return
    job = await planned.apply(oscar)
    await change(planned)
    assert (await planned.runner.has(job.id)).spec.resume is None
    assert await begin_code(planned.rows.db, planned.runner.ref(job.id), 0) == "approval"


async def test_a_plan_that_changes_nothing_cannot_be_applied(database: Database) -> None:
    planned = await Planned.make(database, NOTHING)
    with pytest.raises(Conflict, match="the plan of job 1 changes nothing, so there is nothing to apply"):
        await planned.apply(await planned.somebody("oscar"))


async def test_a_plan_that_could_not_be_saved_cannot_be_applied(database: Database) -> None:
    planned = await Planned.make(database, NOTHING)
    summary = fact(ADDS_ONE)
    oscar = await planned.somebody("oscar")
    job = await planned.create(oscar, NewJob(JobType.PLAN))
    ref = await planned.runner.start(job.id)
    await planned.rows.take(delivery(ref, 2, summary, fact(Result("SUCCEEDED"))))
    with pytest.raises(Conflict, match="was not saved"):
        await planned.apply(oscar, job.id)


async def test_only_the_plan_of_a_plan_job_that_succeeded_can_be_applied(planned: Planned) -> None:
    oscar = await planned.somebody("oscar")
    job = await planned.apply(oscar)
    with pytest.raises(Conflict, match=f"job {job.number} is APPLY"):
        await planned.apply(oscar, job.id)
    running = await planned.create(oscar, NewJob(JobType.PLAN))
    with pytest.raises(Conflict, match="is QUEUED, so it has no plan"):
        await planned.apply(oscar, running.id)


async def test_a_destroy_plan_is_applied_by_a_destroy_that_was_asked_for_by_name(database: Database) -> None:
    planned = await Planned.make(database, REMOVES_ALL, is_destroy_plan=True)
    oscar = await planned.somebody("oscar")
    with pytest.raises(Invalid, match="destroys everything in the module, and the request does not say so"):
        await planned.apply(oscar)
    job = await planned.apply(oscar, is_destroy=True)
    assert (job.type, job.is_destroy_plan, job.status) == ("DESTROY", False, "QUEUED")


async def test_a_plan_that_does_not_destroy_is_not_applied_by_a_destroy(planned: Planned) -> None:
    with pytest.raises(Invalid, match="is not one that destroys everything"):
        await planned.apply(await planned.somebody("oscar"), is_destroy=True)


async def test_a_plan_that_removes_everything_waits_for_an_approval_although_somebody_pressed_apply(
    database: Database,
) -> None:
    planned = await Planned.make(database, REMOVES_ALL)
    job = await planned.apply(await planned.somebody("oscar"))
    assert (job.status, job.plan_attempt) == ("AWAITING_APPROVAL", 0)
    assert (await planned.plan_row(job.id, 0)).why == "the plan destroys all 2 resources that exist"


async def test_who_may_not_run_jobs_of_the_module_applies_nothing(planned: Planned) -> None:
    with pytest.raises(Forbidden):
        await planned.apply(await planned.somebody("vera", "viewer"))
    stranger = Principal("user", "usr_x", "x", "org_other")
    with pytest.raises(NotFound):
        await planned.apply(stranger)


async def test_a_plan_with_a_source_or_inputs_of_its_own_needs_the_permission_to_change_the_module(
    database: Database,
) -> None:
    planned = await Planned.make(database)
    owner = await planned.somebody("olga", "owner")
    job = await planned.plan(owner, inputs={"size": 3})
    with pytest.raises(Forbidden):
        await planned.apply(await planned.somebody("oscar"), job)
    made = await planned.apply(owner, job)
    granted = await planned.runner.has(made.id)
    assert (granted.spec.inputs, granted.spec.resume is not None) == ({"size": 3}, True)


async def test_a_job_that_was_handed_back_keeps_the_plan(planned: Planned) -> None:
    job = await planned.apply(await planned.somebody("oscar"))
    ref = await planned.runner.claimed(job.id)
    await service.settle(planned.rows.db, ref, lambda job, attempt, now: decide.hand_back(job, attempt, "full", now))
    after = await planned.rows.load(job.id)
    assert (after.attempt, after.plan_attempt, after.plan) == (2, 0, ADDS_ONE)
    assert await planned.begin(after) == "begun"


async def test_a_plan_is_kept_while_it_can_be_applied(planned: Planned) -> None:
    db, row = planned.rows.db, await planned.plan_row(planned.plan_job, 1)
    assert await kept_plans.remove_unused(db) == 0
    job = await planned.apply(await planned.somebody("oscar"))
    assert await kept_plans.remove_unused(db) == 0
    assert ((await planned.plan_row(planned.plan_job, 1)).is_kept, (await planned.plan_row(job.id, 0)).is_kept) == (
        False,
        True,
    )
    assert await planned.begin(job) == "begun"
    await planned.rows.take(delivery(planned.runner.ref(job.id), 2, DONE))
    assert await kept_plans.remove_unused(db) == 1
    sql = "SELECT name FROM object_deletions"
    assert [each["name"] for each in await db.read(lambda tx: tx.all(sql))] == [plan_store.object_of_plan(row)]


@pytest.mark.parametrize("why", ["state", "time", "newer"])
async def test_a_plan_that_cannot_be_applied_any_more_is_removed(planned: Planned, why: str) -> None:
    oscar = await planned.somebody("oscar")
    if why == "state":
        await planned.change_state(oscar)
    elif why == "time":
        await change_plans(planned.rows.db, decide_by=1)
    else:
        for _ in range(plan_store.MAX_KEPT_OF_MODULE):
            await planned.plan(oscar)
    assert await kept_plans.remove_unused(planned.rows.db) == 1
    with pytest.raises(Conflict, match=r"no longer kept|has changed"):
        await planned.apply(oscar)
