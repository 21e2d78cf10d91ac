"""Where a module, or a group above it, requires several approvals, a plan is applied only after as many different people gave one."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from terracrew.api.jobs import GivenApproval, Job
from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.messages import AttemptRef, BeginRefused
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals
from terracrew.server.jobs.decision_types import Doubt, ModuleFacts
from terracrew.server.jobs.plans import decide_plan
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons, view
from terracrew.server.tree.modules import policy
from tests.builders.deliveries import RUNNING, delivery
from tests.builders.job_rows import JobRows, begin, begin_code, change_groups, change_jobs, change_modules
from tests.server.jobs.waiting_jobs import Waiting


def person(job: Waiting, number: int) -> Principal:
    return Principal("user", f"usr_{number}", f"person {number}", job.rows.organization, is_system_admin=True)


async def approved_by(job: Waiting, number: int) -> Job:
    await job.rows.administrators(f"usr_{number}")
    return await approvals.approve(job.rows.db, Registry(), person(job, number), job.id, 1)


@pytest.mark.feature("J8.threshold")
async def test_a_job_continues_when_two_different_people_have_approved(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2)
    assert (await approved_by(job, 1)).status == "AWAITING_APPROVAL"
    with pytest.raises(Conflict, match="you have approved this plan already: 1 more person must approve it"):
        await approved_by(job, 1)
    db, watch = job.rows.db, reasons.Watch(Registry(), reasons.decide.APPLY_LEASE)
    waits = await job.job()
    shown = await db.read(lambda tx: view.read(tx, waits, watch))
    assert shown.approvals_needed == 2
    assert shown.kept_plan is not None
    assert [each.by for each in shown.kept_plan.approvals] == ["person 1"]
    assert shown.reason is not None
    assert shown.reason.text.endswith("; person 1 approved it")
    assert (await approved_by(job, 2)).status == "QUEUED"
    ref = await job.start(2)
    await job.take(delivery(ref, 1, RUNNING))
    assert await begin_code(db, AttemptRef(job.id, 2), 0, 1) == "begun"


@pytest.mark.feature("J8.threshold")
async def test_of_many_approvals_at_once_each_counts_once(job: Waiting) -> None:
    """Without a lock, each of two would read no approval, write its own and forget the other's."""
    await change_modules(job.rows.db, min_approvals=4)
    answers = await asyncio.gather(*(approved_by(job, number % 4) for number in range(8)), return_exceptions=True)
    assert sum(isinstance(answer, Conflict) for answer in answers) == 4
    assert (await job.job()).status == "QUEUED"
    plan = await job.rows.db.read(lambda tx: plan_store.get(tx, job.id, 1))
    assert plan is not None
    assert {each.by_id for each in plan.approvals} == {"usr_0", "usr_1", "usr_2", "usr_3"}


@pytest.mark.feature("J8.threshold")
@pytest.mark.parametrize(
    ("of_organization", "of_group", "of_module", "needed"),
    [(3, 1, None, 3), (1, None, 2, 2), (None, 2, 1, 2), (None, None, None, 0)],
)
async def test_a_place_never_weakens_the_rule_of_a_place_above_it(
    database: Database, of_organization: int | None, of_group: int | None, of_module: int | None, needed: int
) -> None:
    rows = await JobRows.make(database)
    module = await rows.module("net/m1", await rows.group("net"))
    await change_groups(database, "", min_approvals=of_organization)
    await change_groups(database, "net", min_approvals=of_group)
    await change_modules(database, module, min_approvals=of_module)
    assert (await database.read(lambda tx: policy.of_module(tx, module))).min_approvals == needed


@pytest.mark.feature("J8.threshold")
async def test_a_stricter_rule_applies_to_a_plan_that_was_approved_before(job: Waiting) -> None:
    assert (await approved_by(job, 1)).status == "QUEUED"
    await change_groups(job.rows.db, "", min_approvals=2)
    ref = await job.start(2)
    assert await begin_code(job.rows.db, ref, 0) == "approval"


@pytest.mark.feature("J8.threshold")
async def test_a_job_that_needs_no_approval_of_its_own_is_asked_about_where_a_group_requires_it(
    database: Database,
) -> None:
    rows = await JobRows.make(database)
    module, runner = await rows.module(), await rows.runner(slots=1)
    await change_groups(rows.db, "", min_approvals=2)
    ref = await runner.start(await rows.job(module, kind="APPLY"), 1)
    assert await begin_code(database, ref, 0) == "approval"


@pytest.mark.feature("J8.needed", "J8.threshold")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda db: change_groups(db, "", min_approvals=2),
            "the organization requires that 2 people approve each change",
        ),
        (lambda db: change_groups(db, "net", min_approvals=1), "`net` requires that a person approves each change"),
        (lambda db: change_modules(db, needs_approval=True), "`net/m1` requires that a person approves each change"),
        (lambda db: change_jobs(db, needs_approval=True), "an approval was required when the job was queued"),
    ],
    ids=["organization", "group", "module", "job"],
)
async def test_a_plan_that_waits_says_which_place_requires_the_approval(
    database: Database, change: Callable[[Database], Awaitable[None]], words: str
) -> None:
    """It said that the module, its group or the job requires an approval, and left open which of them."""
    rows = await JobRows.make(database)
    module, runner = await rows.module("net/m1", await rows.group("net")), await rows.runner(slots=1)
    job = await rows.job(module, kind="APPLY")
    await change(database)
    answer = await begin(database, await runner.start(job, 1), 0)
    assert isinstance(answer, BeginRefused)
    assert answer.message == words


@pytest.mark.feature("J8.threshold")
async def test_the_other_rules_apply_to_every_approval(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2, self_approval=False)
    await change_jobs(job.rows.db, created_by="usr_2")
    await approved_by(job, 1)
    with pytest.raises(Forbidden, match="approve their own jobs"):
        await approved_by(job, 2)
    robot = Principal("service_account", "sva_1", "ci", job.rows.organization, is_system_admin=True)
    with pytest.raises(Forbidden, match="service accounts do not approve"):
        await approvals.approve(job.rows.db, Registry(), robot, job.id, 1)
    assert (await approved_by(job, 3)).status == "QUEUED"


@pytest.mark.feature("J8.threshold")
async def test_an_approval_does_not_count_if_its_giver_has_not_seen_a_doubt(job: Waiting) -> None:
    waits = await job.job()
    plan = await job.rows.db.read(lambda tx: plan_store.get(tx, job.id, 1))
    assert plan is not None
    at = plan.made_at
    doubt = Doubt(AttemptRef("job_other", 1), at, is_in_contact=False)
    calm = ModuleFacts(0, has_quarantine=False, min_approvals=2)
    doubtful = ModuleFacts(0, has_quarantine=False, doubts=(doubt,), min_approvals=2)
    _, plan = decide_plan.approve(waits, plan, calm, GivenApproval("usr_1", "olga", at))
    after, plan = decide_plan.approve(waits, plan, doubtful, GivenApproval("usr_2", "otto", at, [doubt.ref]))
    assert after.status == "AWAITING_APPROVAL"
    assert [each.by for each in plan.approvals] == ["otto"]
    after, plan = decide_plan.approve(waits, plan, doubtful, GivenApproval("usr_1", "olga", at, [doubt.ref]))
    assert (after.status, plan.doubts) == ("QUEUED", [doubt.ref])
