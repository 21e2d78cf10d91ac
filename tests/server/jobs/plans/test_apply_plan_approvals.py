"""The request to apply the plan of a PLAN job is an approval where its sender may approve, and one among others (ADR 0073)."""

import msgspec
import pytest

from terracrew.api.jobs import Job, NewJob
from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.spec import JobType
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.jobs import approvals, service
from terracrew.server.principals.model import Principal
from tests.builders.job_rows import begin_code, change_groups, change_roles
from tests.server.jobs.plans.planned_jobs import Planned

pytestmark = pytest.mark.feature("J8.plan-first")


@pytest.fixture
async def planned(database: Database) -> Planned:
    return await Planned.make(database)


async def approve(planned: Planned, who: Principal, job: Job) -> Job:
    return await approvals.approve(planned.rows.db, Registry(), who, job.id, 0)


async def test_where_an_approval_is_needed_the_request_of_an_approver_is_one(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=1)
    job = await planned.apply(await planned.somebody("anna", "approver"))
    assert job.status == "QUEUED"
    assert [each.by for each in (await planned.plan_row(job.id, 0)).approvals] == ["anna"]
    assert await planned.begin(job) == "begun"


async def test_where_an_approval_is_needed_the_request_of_an_operator_waits_for_one(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=1)
    anna = await planned.somebody("anna", "approver")
    job = await planned.apply(await planned.somebody("oscar"))
    assert job.status == "AWAITING_APPROVAL"
    after = await approve(planned, anna, job)
    assert (after.status, after.plan_attempt) == ("QUEUED", 0)
    assert await planned.begin(after) == "begun"


async def test_where_two_must_approve_the_request_is_the_first_of_them(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=2)
    anna, anton = await planned.somebody("anna", "approver"), await planned.somebody("anton", "approver")
    job = await planned.apply(anna)
    assert job.status == "AWAITING_APPROVAL"
    with pytest.raises(Conflict, match="you have approved this plan already"):
        await approve(planned, anna, job)
    after = await approve(planned, anton, job)
    assert after.status == "QUEUED"
    assert await planned.begin(after) == "begun"


async def test_an_approval_by_request_is_in_the_audit_log_like_any_other(planned: Planned) -> None:
    """Only the second of two approvals was there, as the second of two."""
    await change_groups(planned.rows.db, "", min_approvals=2)
    anna, anton = await planned.somebody("anna", "approver"), await planned.somebody("anton", "approver")
    other_plan = await planned.plan(anton)
    job = await planned.apply(anna)
    await approve(planned, anton, job)
    await planned.apply(await planned.somebody("oscar"), other_plan)  # an operator's request is no approval
    sql = "SELECT actor_name, target_id, details FROM audit WHERE action = 'job.approve' ORDER BY id"
    rows = await planned.rows.db.read(lambda tx: tx.all(sql))
    common: dict[str, object] = {"job": job.number, "plan": 0, "doubts": [], "needed": 2}
    assert [(row["actor_name"], row["target_id"], msgspec.json.decode(row["details"])) for row in rows] == [
        ("anna", job.id, {**common, "approvals": 1}),
        ("anton", job.id, {**common, "approvals": 2}),
    ]


async def test_an_approval_by_request_lapses_with_the_role(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=1)
    job = await planned.apply(await planned.somebody("anna", "approver"))
    await change_roles(planned.rows.db, "usr_anna", role="operator")
    assert await planned.begin(job) == "approval"


async def test_a_rule_that_became_stricter_since_applies(planned: Planned) -> None:
    job = await planned.apply(await planned.somebody("oscar"))
    await change_groups(planned.rows.db, "", min_approvals=1)
    assert await planned.begin(job) == "approval"


async def test_the_author_of_a_plan_does_not_approve_it_where_that_is_not_allowed(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=1, self_approval=False)
    await change_roles(planned.rows.db, "usr_alice", role="approver")
    alice = Principal("user", "usr_alice", "alice", planned.rows.organization)
    job = await planned.apply(alice)
    assert job.status == "AWAITING_APPROVAL"
    with pytest.raises(Forbidden, match="you queued job"):
        await approve(planned, alice, job)


async def test_somebody_else_who_applies_a_plan_is_the_second_person(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=1, self_approval=False)
    job = await planned.apply(await planned.somebody("anna", "approver"))
    assert job.status == "QUEUED"
    assert await planned.begin(job) == "begun"


async def test_a_later_plan_of_the_job_is_due_to_its_author_and_to_who_applied_it(planned: Planned) -> None:
    await change_groups(planned.rows.db, "", min_approvals=1, self_approval=False)
    anna = await planned.somebody("anna", "approver")
    job = await planned.apply(anna)
    ref = await planned.start(job)
    await planned.rows.gone(ref)  # lost before it has begun: it plans again
    again = await planned.rows.load(job.id)
    assert (again.status, again.plan_attempt, again.queued_by) == ("QUEUED", None, {"usr_anna", "usr_alice"})


async def test_a_module_in_doubt_needs_somebody_who_has_looked_at_the_doubt(planned: Planned) -> None:
    anna = await planned.somebody("anna", "approver")
    job = await planned.create(anna, NewJob(JobType.APPLY))
    ref = await planned.runner.start(job.id)
    assert await begin_code(planned.rows.db, ref, 0) == "begun"
    await planned.rows.gone(ref)
    await service.cancel(planned.rows.db, anna, job.id, "interrupt")
    plan = await planned.plan(anna)
    made = await planned.apply(anna, plan)
    assert made.status == "AWAITING_APPROVAL"
    with pytest.raises(Conflict, match="in doubt"):
        await approve(planned, anna, made)
    after = await approvals.approve(planned.rows.db, Registry(), anna, made.id, 0, [ref])
    assert await planned.begin(after) == "begun"
