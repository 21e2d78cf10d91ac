"""Who counts as an approver: only somebody who may still approve, and each person once, also through service accounts."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from terracrew.api.access import NewPolicy
from terracrew.api.jobs import Job
from terracrew.errors import Conflict, Forbidden
from terracrew.protocol.messages import BeginRefused, Begun
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.access import service as access
from terracrew.server.identity.federation import service as federation
from terracrew.server.jobs import approvals, service, store
from terracrew.server.jobs.plans import approvers
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons, view
from terracrew.server.tree.modules import policy
from tests.builders.deliveries import delivery
from tests.builders.job_rows import (
    JobRows,
    begin,
    begin_code,
    change_groups,
    change_jobs,
    change_roles,
    change_users,
)
from tests.server.jobs.waiting_jobs import Waiting, waiting

BOUND_SECONDS = 60.0
IS_BLOCKED = """SELECT pid FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'DELETE FROM role_bindings%'"""


async def approver(job: Waiting, name: str) -> Principal:
    """Somebody with the role of an approver at the organization, and no other right."""
    rows, user_id = job.rows, f"usr_{name}"
    await rows.insert("users", id=user_id, name=name)
    await bind(job, "user", user_id, "approver")
    return Principal("user", user_id, name, rows.organization)


async def bind(job: Waiting, kind: str, principal_id: str, role: str, expires_at: float | None = None) -> None:
    own = job.rows.organization
    await job.rows.db.write(
        lambda tx: role_store.bind_role(tx, own, kind, principal_id, role, "group", "", "test", expires_at)
    )


async def account(job: Waiting, name: str, *holders: Principal) -> Principal:
    """A service account that approves, of which these people have made secrets."""
    made = await access.create_account(job.rows.db, job.admin, name, "")
    await bind(job, "service_account", made.id, "approver")
    for each in holders:
        may_make_secrets = Principal(each.kind, each.id, each.name, job.rows.organization, is_system_admin=True)
        await access.create_secret(job.rows.db, may_make_secrets, made.id, None)
    return Principal("service_account", made.id, name, job.rows.organization)


async def approved(job: Waiting, who: Principal) -> Job:
    return await approvals.approve(job.rows.db, Registry(), who, job.id, (await job.job()).plan_attempt or 1)


async def take_role(job: Waiting, who: Principal) -> None:
    await job.rows.db.write(lambda tx: role_store.delete_roles_of(tx, who.id))


async def shown(job: Waiting) -> view.JobView:
    waits, watch = await job.job(), reasons.Watch(Registry(), reasons.decide.APPLY_LEASE)
    return await job.rows.db.read(lambda tx: view.read(tx, waits, watch))


@pytest.mark.feature("J8.distinct")
@pytest.mark.parametrize(
    "loss",
    [
        lambda rows: rows.run("DELETE FROM role_bindings WHERE principal_id = 'usr_olga'"),
        lambda rows: change_roles(rows.db, "usr_olga", role="operator"),
        lambda rows: change_users(rows.db, "usr_olga", is_disabled=True),
        lambda rows: rows.run("DELETE FROM users WHERE id = 'usr_olga'"),
    ],
    ids=["without the role", "with another role", "disabled", "deleted"],
)
async def test_an_approval_lapses_with_the_role_of_its_giver_before_the_second_one(
    job: Waiting, loss: Callable[[JobRows], Awaitable[None]]
) -> None:
    await change_groups(job.rows.db, "", min_approvals=2)
    olga, otto, ines = [await approver(job, name) for name in ("olga", "otto", "ines")]
    await approved(job, olga)
    await loss(job.rows)
    seen = await shown(job)
    assert (seen.approvals_counted, [each.by for each in seen.lapsed_approvals]) == (0, ["olga"])
    assert (await approved(job, otto)).status == "AWAITING_APPROVAL"
    assert (await approved(job, ines)).status == "QUEUED"


@pytest.mark.feature("J8.distinct")
async def test_an_approval_lapses_when_the_role_of_its_giver_expires(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    await approved(job, olga)
    await bind(job, "user", olga.id, "approver", expires_at=1.0)
    assert (await shown(job)).approvals_counted == 0
    assert (await approved(job, otto)).status == "AWAITING_APPROVAL"


@pytest.mark.feature("J8.distinct")
async def test_permission_to_apply_is_refused_when_an_approver_has_lost_the_role(job: Waiting) -> None:
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    assert (await approved(job, olga)).status == "QUEUED"
    await take_role(job, olga)
    ref = await job.start(2)
    answer = await begin(job.rows.db, ref, 0, 1)
    assert isinstance(answer, BeginRefused)
    assert answer.code == "approval"
    assert answer.message.endswith("olga may not approve plans here any more")
    await job.take(delivery(ref, 2, waiting(why=answer.message)))
    assert (await job.job()).status == "AWAITING_APPROVAL"
    assert (await approved(job, otto)).status == "QUEUED"
    assert await begin_code(job.rows.db, await job.start(3), 0, 2) == "begun"


@pytest.mark.feature("J8.distinct")
async def test_a_permission_and_the_end_of_a_role_at_the_same_time_agree(database: Database) -> None:
    for number in range(6):
        job = await Waiting.make(database)
        olga = await approver(job, f"olga{number}")
        await approved(job, olga)
        ref = await job.start(2)
        _, answer = await asyncio.gather(take_role(job, olga), begin(database, ref, 0, 1))
        attempt = (await job.rows.attempts(job.id))[-1]
        assert (attempt.begun_at is not None) == isinstance(answer, Begun)
        if isinstance(answer, BeginRefused):
            assert answer.code == "approval"


@pytest.mark.feature("J8.distinct")
async def test_a_role_ends_only_after_a_permission_that_counts_it(database: Database) -> None:
    """SQLite has one writer. On PostgreSQL a permission could count a role that had ended before the permission was given."""
    if database.kind == "sqlite":
        return
    job = await Waiting.make(database)
    olga = await approver(job, "olga")
    counted, finish, events = asyncio.Event(), asyncio.Event(), list[str]()

    async def count(tx: Tx) -> None:
        waits, rules = await store.get(tx, job.id), await policy.of_module(tx, job.module)
        plan = await plan_store.get(tx, job.id, 1)
        await approvers.hold(tx, waits, plan, rules, await service.place_of(tx, waits))
        counted.set()
        await finish.wait()
        events.append("answered")

    async def take() -> None:
        await take_role(job, olga)
        events.append("taken")

    await change_groups(job.rows.db, "", min_approvals=2)
    await approved(job, olga)
    async with asyncio.timeout(BOUND_SECONDS), asyncio.TaskGroup() as tasks:
        tasks.create_task(database.write(count))
        await counted.wait()
        tasks.create_task(take())
        while not await database.read(lambda tx: tx.one(IS_BLOCKED)):
            assert not events
        finish.set()
    assert events == ["answered", "taken"]


@pytest.mark.feature("J8.distinct")
async def test_one_person_does_not_approve_twice_through_a_service_account(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2, service_account_approval=True)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    robot = await account(job, "robot", olga)
    await approved(job, olga)
    with pytest.raises(
        Conflict, match="robot does not count beside that of olga, because one person may have given both"
    ):
        await approved(job, robot)
    seen = await shown(job)
    assert seen.approvals_counted == 1
    assert (await approved(job, otto)).status == "QUEUED"


@pytest.mark.feature("J8.distinct")
async def test_a_person_does_not_approve_beside_a_service_account_that_they_held(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2, service_account_approval=True)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    robot = await account(job, "robot", olga)
    secrets = await job.rows.db.read(lambda tx: access.secrets(tx, job.admin, robot.id))
    await approved(job, robot)
    await job.rows.db.write(lambda tx: access.revoke_secret(tx, job.admin, robot.id, secrets[0].id))
    with pytest.raises(Conflict, match="olga does not count beside that of robot"):
        await approved(job, olga)
    assert (await approved(job, otto)).status == "QUEUED"
    assert await begin_code(job.rows.db, await job.start(2), 0, 1) == "begun"


@pytest.mark.feature("J8.distinct")
async def test_a_secret_made_after_the_approval_joins_the_two_at_the_permission(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2, service_account_approval=True)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    robot = await account(job, "robot", olga)
    await approved(job, robot)
    assert (await approved(job, otto)).status == "QUEUED"
    admin = Principal("user", otto.id, otto.name, job.rows.organization, is_system_admin=True)
    await access.create_secret(job.rows.db, admin, robot.id, None)
    assert await begin_code(job.rows.db, await job.start(2), 0, 1) == "approval"


@pytest.mark.feature("J8.distinct")
async def test_two_accounts_of_one_person_are_one_approver_also_through_a_third_account(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=3, service_account_approval=True)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    first = await account(job, "first", olga)
    second = await account(job, "second", first)
    other = await account(job, "other", otto)
    await approved(job, second)
    with pytest.raises(Conflict, match="one person may have given both"):
        await approved(job, first)
    await approved(job, other)
    assert (await shown(job)).approvals_counted == 2


@pytest.mark.feature("J8.distinct")
async def test_who_lets_an_account_trust_an_issuer_counts_as_its_holder(job: Waiting) -> None:
    await change_groups(job.rows.db, "", min_approvals=2, service_account_approval=True)
    olga = await approver(job, "olga")
    robot = await account(job, "robot")
    may_trust = Principal("user", olga.id, olga.name, job.rows.organization, is_system_admin=True)
    wanted = NewPolicy("https://ci.example.com", {"sub": "robot"})
    await federation.add(job.rows.db, may_trust, robot.id, wanted, federation.Trust("https://crew.example.com"))
    await approved(job, robot)
    with pytest.raises(Conflict, match="olga does not count beside that of robot"):
        await approved(job, olga)


@pytest.mark.feature("J8.distinct", "X3.roles")
async def test_nobody_approves_their_own_job_through_a_service_account(job: Waiting) -> None:
    await change_groups(job.rows.db, "", self_approval=False, service_account_approval=True)
    olga = await approver(job, "olga")
    robot = await account(job, "robot", olga)
    await change_jobs(job.rows.db, created_by="usr_olga")
    with pytest.raises(Forbidden, match="does not let people approve their own jobs"):
        await approved(job, robot)
    await change_jobs(job.rows.db, created_by=robot.id)
    with pytest.raises(Forbidden, match="queued by a service account"):
        await approved(job, olga)


@pytest.mark.feature("J8.distinct", "X3.roles")
async def test_deleting_a_service_account_does_not_hide_who_held_it(job: Waiting) -> None:
    await change_groups(job.rows.db, "", self_approval=False)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    robot = await account(job, "robot", olga)
    await change_jobs(job.rows.db, created_by=robot.id)
    await job.rows.db.write(lambda tx: access.delete_account(tx, job.admin, robot.id))
    with pytest.raises(Forbidden, match="queued by a service account"):
        await approved(job, olga)
    assert (await approved(job, otto)).status == "QUEUED"


@pytest.mark.feature("J8.distinct", "X3.roles")
async def test_who_lets_a_job_plan_again_counts_as_somebody_who_queued_it(job: Waiting) -> None:
    await change_groups(job.rows.db, "", self_approval=False)
    olga, otto = await approver(job, "olga"), await approver(job, "otto")
    after = await approvals.replan(job.rows.db, olga, job.id, 1)
    assert after.replanned_by == [olga.id]
    ref = await job.start(2)
    assert await begin_code(job.rows.db, ref, 0) == "approval"
    await job.take(delivery(ref, 2, waiting()))
    with pytest.raises(Forbidden, match="you let job 1 plan again"):
        await approved(job, olga)
    assert (await approved(job, otto)).status == "QUEUED"
