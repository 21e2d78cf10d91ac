"""A plan that waits for a person holds nothing, is decided about once, and is applied at most once."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from terracrew.errors import Conflict, NotFound
from terracrew.protocol.messages import AttemptRef, BeginRefused, Begun
from terracrew.server.connections.registry import Registry
from terracrew.server.jobs import approvals, decide, service
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.objects import open_objects
from terracrew.server.retention import deletion as deletions
from terracrew.server.retention import kept_plans
from terracrew.server.runs import reasons
from terracrew.server.tree.modules import contents
from terracrew.server.tree.modules.contents import Content
from tests.builders.clock import ShiftedClock
from tests.builders.deliveries import DONE, RUNNING, delivery
from tests.builders.job_rows import KEYS, JobRows, begin, begin_code, change_modules, change_plans, change_runners
from tests.server.jobs.waiting_jobs import Waiting, waiting


@pytest.mark.feature("J8.slot", "S6.words")
async def test_a_plan_that_waits_holds_neither_slot_nor_lock(job: Waiting) -> None:
    waits = await job.job()
    assert waits.status == "AWAITING_APPROVAL"
    reason = await job.rows.db.read(lambda tx: reasons.why(tx, waits, reasons.Watch(Registry(), decide.APPLY_LEASE)))
    assert reason is not None
    assert reason.code == "approval"
    other = await job.rows.job(job.module)
    assert await job.runner.claim(other) is not None, "the runner's one slot and the module's lock are free"


@pytest.mark.feature("J8.same")
async def test_an_approved_job_goes_on_with_the_kept_plan_as_a_new_attempt(job: Waiting) -> None:
    approved = await job.approve()
    assert (approved.status, approved.attempt, approved.plan_attempt) == ("QUEUED", 2, 1)
    granted = await job.runner.has(job.id, 2)
    assert granted.spec.resume is not None
    assert (granted.spec.resume.attempt, granted.spec.resume.path) == (1, "/workspaces/x")
    ref = AttemptRef(job.id, 2)
    await job.take(delivery(ref, 1, RUNNING))
    assert await begin_code(job.rows.db, ref, 0, 1) == "begun"
    assert await begin_code(job.rows.db, ref, 0, 1) == "begun", "a repeated begin is answered again"
    await job.take(delivery(ref, 2, DONE))
    assert (await job.job()).status == "SUCCEEDED"


@pytest.mark.feature("J8.same")
async def test_an_approval_is_for_one_plan(job: Waiting) -> None:
    with pytest.raises(NotFound):
        await job.approve(plan=7)
    await job.approve()
    ref = await job.start(2)
    assert await begin_code(job.rows.db, ref, 0) == "approval", "a plan of its own is another one"
    await job.take(delivery(ref, 2, waiting()))
    with pytest.raises(Conflict, match="no longer the one"):
        await job.approve(plan=1)
    assert (await job.approve(plan=2)).plan_attempt == 2


@pytest.mark.feature("J8.same")
async def test_only_the_plan_that_was_described_is_applied_with_its_approval(job: Waiting) -> None:
    """A hook replaced the saved plan: the approver saw one plan, and another one was applied."""
    await change_plans(job.rows.db, plan_sha256="ab")
    await job.approve()
    granted = await job.runner.has(job.id, 2)
    assert granted.spec.resume is not None
    assert granted.spec.resume.plan_sha256 == "ab"
    ref = AttemptRef(job.id, 2)
    await job.take(delivery(ref, 1, RUNNING))
    for other in ("", "cd"):
        refused = await begin(job.rows.db, ref, 0, 1, plan_sha256=other)
        assert isinstance(refused, BeginRefused)
        assert (refused.code, "not the one that was described and approved" in refused.message) == (
            "plan_changed",
            True,
        )
    assert isinstance(await begin(job.rows.db, ref, 0, 1, plan_sha256="ab"), Begun)
    refused = await begin(job.rows.db, ref, 0, 1, plan_sha256="cd")
    assert isinstance(refused, BeginRefused), "also after a first permit: a hook has run in between"


@pytest.mark.feature("J8.same")
async def test_a_plan_is_applied_once(job: Waiting) -> None:
    await job.approve()
    ref = await job.start(2)
    assert await begin_code(job.rows.db, ref, 0, 1) == "begun"
    await job.rows.gone(ref)
    assert (await job.job()).plan_attempt is None
    third = await job.start(3)
    assert await begin_code(job.rows.db, third, 0, 1) == "approval"


@pytest.mark.feature("J8.same")
async def test_what_was_handed_back_keeps_its_approval(job: Waiting) -> None:
    await job.approve()
    await job.runner.has(job.id, 2)
    await service.settle(job.rows.db, AttemptRef(job.id, 2), lambda j, a, now: decide.hand_back(j, a, "no room", now))
    granted = await job.runner.has(job.id, 3)
    assert granted.spec.resume is not None


@pytest.mark.feature("J8.same")
@pytest.mark.parametrize(
    "content", [Content(inputs={"a": 1}), Content(environment={"A": "1"})], ids=["inputs", "environment"]
)
async def test_what_is_planned_from_other_content_is_planned_again(job: Waiting, content: Content) -> None:
    await job.approve()
    await job.rows.db.write(lambda tx: contents.save(tx, KEYS, job.module, content))
    assert (await job.runner.has(job.id, 2)).spec.resume is None


@pytest.mark.feature("J8.same", "S3.approval")
async def test_only_the_runner_that_made_the_plan_goes_on_with_it(job: Waiting) -> None:
    await job.approve()
    other = await job.rows.runner()
    assert await other.claim(job.id, 2) is None
    assert await job.runner.claim(job.id, 2) is not None


@pytest.mark.feature("J8.same", "R7.disable")
@pytest.mark.parametrize(
    "change",
    [
        lambda rows, runner_id: change_runners(rows.db, runner_id, is_disabled=True),
        lambda rows, runner_id: change_runners(rows.db, runner_id, is_draining=True, removing_since=1.0),
        lambda rows, runner_id: rows.run("DELETE FROM runners WHERE id = :id", id=runner_id),
    ],
    ids=["disabled", "being removed", "removed"],
)
async def test_when_the_runner_that_made_the_plan_takes_no_more_jobs_another_one_plans_again(
    job: Waiting, change: Callable[[JobRows, str], Awaitable[None]]
) -> None:
    """The other runner was given the plan and its key, though the plan may contain what that runner must not see."""
    await job.approve()
    await change(job.rows, job.runner.runner_id)
    assert (await (await job.rows.runner()).has(job.id, 2)).spec.resume is None


@pytest.mark.feature("J8.same")
@pytest.mark.parametrize("by_its_runner", [True, False])
async def test_what_is_planned_from_another_state_is_planned_again_by_any_runner(
    job: Waiting, by_its_runner: bool
) -> None:
    await job.approve()
    await change_modules(job.rows.db, job.module, state_version=1)
    runner = job.runner if by_its_runner else await job.rows.runner()
    assert (await runner.has(job.id, 2)).spec.resume is None


@pytest.mark.feature("J8.same")
async def test_of_two_who_decide_at_once_one_is_heard(job: Waiting) -> None:
    answers = await asyncio.gather(
        job.approve(),
        approvals.decline(job.rows.db, job.admin, job.id, 1, "no"),
        job.approve(),
        return_exceptions=True,
    )
    assert sum(not isinstance(answer, BaseException) for answer in answers) == 1
    assert all(isinstance(answer, service.Job | Conflict) for answer in answers)


@pytest.mark.feature("J2.transitions", "J8.decline")
async def test_a_declined_job_says_who_and_why(job: Waiting) -> None:
    ended = await approvals.decline(job.rows.db, job.admin, job.id, 1, "too many deletions")
    assert (ended.status, ended.message) == ("DECLINED", "declined by olga: too many deletions")
    with pytest.raises(Conflict):
        await job.approve()


@pytest.mark.feature("J8.timeout")
async def test_a_plan_that_nobody_decides_about_in_time_is_declined(job: Waiting, clock: ShiftedClock) -> None:
    assert await approvals.expire(job.rows.db) == []
    clock.advance((await job.job()).approval_seconds)
    with pytest.raises(Conflict, match="is over"):
        await job.approve()
    (ended,) = await approvals.expire(job.rows.db)
    assert (ended.status, ended.message) == ("DECLINED", "nobody approved its plan in time")


async def test_an_overdue_plan_of_a_job_that_has_ended_is_looked_at_once(job: Waiting, clock: ShiftedClock) -> None:
    """Expiry and cancel leave a plan undecided: each second, all such plans of all ended jobs were read again."""
    await service.cancel(job.rows.db, job.admin, job.id, "after_step")
    other = await Waiting.make(job.rows.db)
    clock.advance((await job.job()).approval_seconds)
    (ended,) = await approvals.expire(job.rows.db)
    assert ended.id == other.id
    await approvals.expire(job.rows.db)
    open_plans = "SELECT job_id FROM plans WHERE is_open AND decision IS NULL"
    assert await job.rows.db.read(lambda tx: tx.all(open_plans)) == []


@pytest.mark.feature("J9.modes")
async def test_a_job_that_waits_is_canceled_at_once(job: Waiting) -> None:
    assert (await service.cancel(job.rows.db, job.admin, job.id, "after_step")).status == "CANCELED"


async def test_a_canceled_job_does_not_begin_to_wait(rows: JobRows) -> None:
    module, runner = await rows.module(), await rows.runner()
    made = Waiting(rows, runner, module, await rows.job(module, kind="APPLY"))
    ref = await made.start(1)
    await service.cancel(rows.db, made.admin, made.id, "after_step")
    await made.take(delivery(ref, 2, waiting()))
    assert (await made.job()).status == "CANCELED"
    kept = await rows.db.read(lambda tx: plan_store.get(tx, made.id, 1))
    assert kept is not None, "without its row, nothing would remove the object that was stored for the plan"
    assert kept.decision is None


@pytest.mark.feature("J8.same")
async def test_an_older_plan_is_not_begun_with_even_where_no_approval_is_needed(job: Waiting) -> None:
    """An executor may name what it likes: the older approval was believed."""
    await service.cancel(job.rows.db, job.admin, job.id, "after_step")
    free = Waiting(job.rows, job.runner, job.module, await job.rows.job(job.module, kind="APPLY"))
    first = await free.start(1)
    await free.take(delivery(first, 2, waiting()))
    await free.approve()
    second = await free.start(2)
    await free.take(delivery(second, 2, waiting()))
    await free.approve(plan=2)
    third = await free.start(3)
    for plan in (1, 2):
        asked = await begin(job.rows.db, third, 0, plan)
        assert isinstance(asked, BeginRefused) == (plan == 1), "only the plan that the job goes on with"


@pytest.mark.feature("J8.same")
async def test_plans_that_a_job_has_left_for_another_are_removed_while_it_lives(job: Waiting, tmp_path: Path) -> None:
    """Each `replan` left a plan of up to 1 GiB behind, which was kept for as long as the job lived.

    When it was removed, its object was deleted at once, so that a restored backup named a plan that was not there.
    """
    db, objects = job.rows.db, open_objects(tmp_path.as_uri())

    async def kept() -> list[int]:
        return [int(name.split("/")[2]) for name in await objects.names(f"plans/{job.id}")]

    await objects.put(plan_store.object_of(job.id, 1, "ab"), b"one")
    assert await kept_plans.remove_unused(db) == 0, "the job waits with it"
    await approvals.replan(db, job.admin, job.id, 1)
    assert await kept_plans.remove_unused(db) == 1
    assert await kept() == [1], "a backup of the database may still name it"
    assert await deletions.delete_due(db, objects, 3600.0) == 0
    assert await kept() == [1]
    assert await deletions.delete_due(db, objects, 0.0) == 1
    assert await kept() == []
    ref = await job.start(2)
    await objects.put(plan_store.object_of(job.id, 2, "ab"), b"two")
    assert await kept_plans.remove_unused(db) == 0, "the attempt has stored it and has yet to say so"
    await job.take(delivery(ref, 2, waiting()))
    await job.approve(2)
    await job.start(3)
    assert await kept_plans.remove_unused(db) == 0, "the job goes on with it"
    assert await kept() == [2]
