"""What a policy denies may be applied after enough people with its role have approved exactly that plan."""

import pytest

from terracrew.api.jobs import Job
from terracrew.errors import Conflict
from terracrew.protocol.events import KeptPlan, Result
from terracrew.protocol.messages import AttemptRef, BeginRefused
from terracrew.server.connections.registry import Registry
from terracrew.server.identity.access import role_store
from terracrew.server.jobs import approvals
from terracrew.server.policies import service
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons, view
from tests.builders.deliveries import RUNNING, delivery, fact
from tests.builders.job_rows import change_modules
from tests.server.policies.looking import NEVER, PLAN, Looking

pytestmark = [pytest.mark.platform("opa"), pytest.mark.feature("P3.approvers")]


async def somebody(looking: Looking, name: str, role: str) -> Principal:
    user_id, own = f"usr_{name}", looking.rows.organization
    await looking.rows.insert("users", id=user_id, name=name)
    bound = ("user", user_id, role, "group", "", "test", None)
    await looking.rows.db.write(lambda tx: role_store.bind_role(tx, own, *bound))
    return Principal("user", user_id, name, own)


async def waiting(looking: Looking) -> AttemptRef:
    """A job whose plan waits, because the policy denies it."""
    ref = await looking.planned()
    answer = await looking.begin(ref)
    assert isinstance(answer, BeginRefused)
    assert answer.code == "approval", answer.message
    assert (
        "nothing is applied here. It may be applied after 2 people with the role `owner` approved it" in answer.message
    )
    kept = KeptPlan(0, "ab", 2, "/workspaces/x", PLAN)
    await looking.rows.take(delivery(ref, 5, fact(Result("WAITING", answer.message, kept=kept))))
    return ref


async def approve(looking: Looking, who: Principal, ref: AttemptRef) -> Job:
    return await approvals.approve(looking.rows.db, Registry(), who, ref.job_id, 1)


async def test_only_approvals_of_those_with_the_role_count_for_the_policy(looking: Looking) -> None:
    await looking.policy(NEVER, enforcement="approvers", approvals=2, role="owner")
    ref = await waiting(looking)
    first, second = await somebody(looking, "ada", "owner"), await somebody(looking, "bob", "owner")
    lesser = await somebody(looking, "eve", "approver")
    assert (await approve(looking, lesser, ref)).status == "AWAITING_APPROVAL"
    assert (await approve(looking, first, ref)).status == "AWAITING_APPROVAL"
    with pytest.raises(Conflict, match="you have approved this plan already: 1 more person must approve it"):
        await approve(looking, first, ref)
    db, watch = looking.rows.db, reasons.Watch(Registry(), reasons.decide.APPLY_LEASE)
    job = await looking.job(ref)
    shown = await db.read(lambda tx: view.read(tx, job, watch))
    assert (shown.approvals_counted, shown.approvals_needed) == (2, 3)
    assert shown.policy_needs == [
        "the policy `rule` (version 1) denies this plan: nothing is applied here. It may be applied after 2 people with the role"
        " `owner` approved it"
    ]
    assert [each.verdict for each in shown.policy_checks] == ["denied"]
    assert (await approve(looking, second, ref)).status == "QUEUED"
    resumed = await looking.runner.start(ref.job_id, 2)
    await looking.rows.take(delivery(resumed, 1, RUNNING))
    answer = await looking.begin(resumed, PLAN, plan_attempt=1)
    assert getattr(answer, "code", "begun") == "begun", answer


async def test_a_mandatory_policy_that_came_after_the_approvals_stops_the_plan(looking: Looking) -> None:
    await looking.policy(NEVER, enforcement="approvers", approvals=2, role="owner")
    ref = await waiting(looking)
    for name in ("ada", "bob"):
        await approve(looking, await somebody(looking, name, "owner"), ref)
    await looking.policy(NEVER, name="later")
    resumed = await looking.runner.start(ref.job_id, 2)
    assert getattr(await looking.begin(resumed, PLAN, plan_attempt=1), "code", "begun") == "superseded"
    assert (await looking.job(ref)).failure_kind == "policy"


async def test_an_approver_who_has_lost_the_role_does_not_count(looking: Looking) -> None:
    await looking.policy(NEVER, enforcement="approvers", approvals=2, role="owner")
    ref = await waiting(looking)
    for name in ("ada", "bob"):
        await approve(looking, await somebody(looking, name, "owner"), ref)
    resumed = await looking.runner.start(ref.job_id, 2)
    await looking.rows.db.write(lambda tx: tx.run("DELETE FROM role_bindings WHERE principal_id = 'usr_bob'"))
    assert getattr(await looking.begin(resumed, PLAN, plan_attempt=1), "code", "begun") == "approval"


async def test_a_plan_that_waits_for_a_retired_policy_needs_one_approval(looking: Looking) -> None:
    made = await looking.policy(NEVER, enforcement="approvers", approvals=2, role="owner")
    ref = await waiting(looking)
    await looking.rows.db.write(lambda tx: service.retire(tx, looking.who, made.path))
    assert (await approve(looking, await somebody(looking, "eve", "approver"), ref)).status == "QUEUED"


async def test_an_approval_that_was_given_before_a_policy_denied_the_plan_does_not_count_for_it(
    looking: Looking,
) -> None:
    await looking.policy(NEVER, enforcement="approvers", approvals=2, role="owner")
    ref = await waiting(looking)
    for name in ("ada", "bob"):
        await approve(looking, await somebody(looking, name, "owner"), ref)
    await looking.policy(NEVER, name="later", enforcement="approvers", approvals=1, role="owner")
    resumed = await looking.runner.start(ref.job_id, 2)
    answer = await looking.begin(resumed, PLAN, plan_attempt=1)
    assert isinstance(answer, BeginRefused)
    assert answer.code == "approval"
    assert "the policy `later` (version 1) denies this plan" in answer.message


async def test_who_has_approved_before_a_policy_denied_the_plan_can_approve_again(looking: Looking) -> None:
    made = await looking.policy(NEVER, enforcement="approvers", approvals=2, role="owner")
    ref = await waiting(looking)
    ada, bob = await somebody(looking, "ada", "owner"), await somebody(looking, "bob", "owner")
    await change_modules(looking.rows.db, looking.module, min_approvals=2)
    await looking.rows.db.write(lambda tx: service.retire(tx, looking.who, made.path))
    assert (await approve(looking, ada, ref)).status == "AWAITING_APPROVAL"
    await looking.activate(made.path)
    job, watch = await looking.job(ref), reasons.Watch(Registry(), reasons.decide.APPLY_LEASE)
    shown = await looking.rows.db.read(lambda tx: view.read(tx, job, watch))
    assert [(each.by, "policy" in each.why) for each in shown.lapsed_approvals] == [("ada", True)]
    assert (await approve(looking, bob, ref)).status == "AWAITING_APPROVAL"
    assert (await approve(looking, ada, ref)).status == "QUEUED"
