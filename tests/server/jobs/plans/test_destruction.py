"""An APPLY that destroys too much waits for a person, and the group decides who that person may be."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terracrew.errors import Forbidden
from terracrew.protocol.events import PlanSummary
from terracrew.protocol.messages import AttemptRef, BeginRefused, Begun
from terracrew.server.connections.registry import Registry
from terracrew.server.db.seam import Database
from terracrew.server.history.points import History
from terracrew.server.jobs import approvals, decide
from terracrew.server.jobs.attempts.ingest import ingest
from terracrew.server.jobs.decision_types import ApproverFacts
from terracrew.server.jobs.plans import approver_rules
from terracrew.server.jobs.plans.destruction import reason_to_ask, removes_everything
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons
from terracrew.server.tree.modules.policy import DestroyLimits, ModulePolicy
from tests.builders.deliveries import RUNNING, delivery, fact
from tests.builders.job_rows import KEYS, JobRows, begin, change_groups, change_jobs, change_modules
from tests.server.jobs.waiting_jobs import Waiting, waiting

NO_LIMITS = DestroyLimits()


@pytest.mark.feature("J8.needed")
@pytest.mark.parametrize(
    ("plan", "limits", "words"),
    [
        (PlanSummary(destroy=2, existing=2), NO_LIMITS, "destroys all 2 resources that exist"),
        (PlanSummary(destroy=1, existing=1), NO_LIMITS, "destroys the only resource that exists"),
        (PlanSummary(add=5, destroy=2, existing=2), NO_LIMITS, "destroys all 2"),
        (PlanSummary(destroy=2, forgets=1, existing=3), NO_LIMITS, "destroys all 2"),
        (PlanSummary(destroy=2, existing=3, unchanged=1), NO_LIMITS, None),
        (PlanSummary(replace=3, existing=3), NO_LIMITS, None),
        (PlanSummary(add=3, existing=0), NO_LIMITS, None),
        (
            PlanSummary(destroy=2),
            NO_LIMITS,
            "destroys 2 resources, and how many exist is not known: it may be all of them",
        ),
        (PlanSummary(replace=1), NO_LIMITS, None),
        (
            PlanSummary(replace=1),
            DestroyLimits(None, 20),
            "destroys 1 resource, and how many exist is not known; more than 20 %",
        ),
        (PlanSummary(replace=1, change=3), DestroyLimits(None, 100), None),
        (PlanSummary(destroy=3, change=1), DestroyLimits(2), "how many exist is not known; more than 2 need"),
        (PlanSummary(add=3), DestroyLimits(0, 0), None),
        (PlanSummary(destroy=2, unchanged=4), NO_LIMITS, None),
        (
            PlanSummary(destroy=2, replace=1, existing=9),
            DestroyLimits(2),
            "destroys 3 of 9 resources; more than 2 need",
        ),
        (PlanSummary(destroy=2, existing=9), DestroyLimits(2), None),
        (PlanSummary(destroy=1, existing=9), DestroyLimits(0), "destroys 1 of 9 resources; more than 0 need"),
        (PlanSummary(destroy=3, existing=10), DestroyLimits(None, 25), "more than 25 % of them need"),
        (PlanSummary(destroy=2, existing=10), DestroyLimits(9, 25), None),
    ],
)
def test_a_plan_that_destroys_too_much_says_so_in_words(
    plan: PlanSummary, limits: DestroyLimits, words: str | None
) -> None:
    found = reason_to_ask(plan, limits)
    assert (found is None) == (words is None)
    assert (words or "") in (found or "")


@pytest.mark.feature("J8.needed")
@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(0, 9))
def test_what_removes_everything_is_never_let_through_by_a_limit(
    destroy: int, replace: int, change: int, unchanged: int, limit: int
) -> None:
    existing = destroy + replace + change + unchanged
    plan = PlanSummary(destroy=destroy, replace=replace, change=change, unchanged=unchanged, existing=existing)
    assert removes_everything(plan) == (destroy > 0 and existing == destroy)
    if removes_everything(plan):
        assert reason_to_ask(plan, DestroyLimits(limit, 100)) is not None


async def planned(
    database: Database,
    plan: PlanSummary,
    groups: dict[str, dict[str, int]] | None = None,
    of_module: dict[str, int] | None = None,
    kind: str = "APPLY",
) -> tuple[JobRows, AttemptRef, Begun | BeginRefused]:
    """A job whose executor has this plan and asks whether it may begin."""
    rows = await JobRows.make(database)
    module, runner = await rows.module("net/vpc", await rows.group("net")), await rows.runner()
    for path, limits in (groups or {}).items():
        await change_groups(database, path, **limits)
    if of_module:
        await change_modules(database, module, **of_module)
    job = await rows.job(module, kind=kind)
    await runner.has(job, 1)
    ref = AttemptRef(job, 1)
    await ingest(database, KEYS, History(KEYS))(delivery(ref, 1, RUNNING, fact(plan)))
    return rows, ref, await begin(database, ref, 0)


@pytest.mark.feature("J8.needed")
async def test_an_apply_that_removes_everything_waits_with_the_reason_in_words(database: Database) -> None:
    """A folder with only a readme replaced the module's source: the next apply said "2 destroyed" and ended with 0."""
    world, ref, answer = await planned(database, PlanSummary(destroy=2, existing=2))
    assert isinstance(answer, BeginRefused)
    assert (answer.code, answer.message) == ("approval", "the plan destroys all 2 resources that exist")
    await ingest(database, KEYS, History(KEYS))(delivery(ref, 3, waiting(why=answer.message)))
    job = await world.load(ref.job_id)
    assert job.status == "AWAITING_APPROVAL"
    reason = await database.read(lambda tx: reasons.why(tx, job, reasons.Watch(Registry(), decide.APPLY_LEASE)))
    assert reason is not None
    assert "the plan destroys all 2 resources that exist" in reason.text
    admin = Principal("user", "usr_1", "olga", world.organization, is_system_admin=True)
    assert (await approvals.approve(database, Registry(), admin, ref.job_id, 1)).status == "QUEUED"


@pytest.mark.feature("J8.needed")
async def test_a_destroy_job_and_a_partial_apply_go_on_unasked(database: Database) -> None:
    _, _, answer = await planned(database, PlanSummary(destroy=2, existing=2), kind="DESTROY")
    assert isinstance(answer, Begun)
    _, _, answer = await planned(database, PlanSummary(destroy=2, existing=3))
    assert isinstance(answer, Begun)


@pytest.mark.feature("J8.needed")
@pytest.mark.parametrize(
    ("groups", "of_module", "is_asked"),
    [
        ({"": {"max_destroy": 1}}, {}, True),
        ({"": {"max_destroy": 1}, "net": {"max_destroy": 5}}, {}, True),
        ({"net": {"max_destroy": 5}}, {"max_destroy": 1}, True),
        ({"net": {"max_destroy_percent": 10}}, {}, True),
        ({"net": {"max_destroy_percent": 20}}, {}, False),
    ],
)
async def test_the_strictest_place_sets_how_much_may_be_destroyed_unasked(
    database: Database, groups: dict[str, dict[str, int]], of_module: dict[str, int], is_asked: bool
) -> None:
    _, _, answer = await planned(database, PlanSummary(destroy=2, existing=10), groups, of_module)
    assert isinstance(answer, BeginRefused) == is_asked


@pytest.mark.feature("J8.needed", "X3.roles")
async def test_where_a_group_says_so_nobody_approves_their_own_job(database: Database) -> None:
    job = await Waiting.make(database)
    await change_jobs(database, job.id, created_by="usr_1")
    await change_groups(database, "", self_approval=False)
    with pytest.raises(Forbidden, match="does not let people approve their own jobs"):
        await job.approve()
    assert (await job.job()).status == "AWAITING_APPROVAL"
    other = Principal("user", "usr_2", "otto", job.rows.organization, is_system_admin=True)
    assert (await approvals.approve(database, Registry(), other, job.id, 1)).status == "QUEUED"


@pytest.mark.feature("J8.needed", "X3.roles")
async def test_service_accounts_approve_only_where_the_group_allows_it(database: Database) -> None:
    """A service account could approve any plan, also that of a job which it had queued itself."""
    job = await Waiting.make(database)
    robot = Principal("service_account", "sva_1", "ci", job.rows.organization, is_system_admin=True)
    with pytest.raises(Forbidden, match="service accounts do not approve plans here"):
        await approvals.approve(database, Registry(), robot, job.id, 1)
    await change_groups(database, "", service_account_approval=True)
    assert (await approvals.approve(database, Registry(), robot, job.id, 1)).status == "QUEUED"


@pytest.mark.feature("J8.needed")
async def test_by_default_people_may_approve_their_own_jobs(database: Database) -> None:
    job = await Waiting.make(database)
    assert approver_rules.refusal(await job.job(), job.admin, ModulePolicy(), ApproverFacts()) is None
