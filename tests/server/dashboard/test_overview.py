"""After they have logged in, people see what needs them, the most urgent first; a new organization sees its first steps."""

import re

import pytest

from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.runs import attention
from tests.builders.job_rows import change_jobs, change_modules
from tests.server.application import Application, on_one
from tests.server.dashboard.company.releases import publish_all
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.visitor import Visitor, logged_in

pytestmark = pytest.mark.feature("U2.overview")
SOURCE = {"kind": "local", "path": "/srv/sources/x"}


def needs(page: str) -> list[tuple[str, str]]:
    """What the page lists as needing the reader: the words of the badges, and the modules."""
    if 'id="needs-you"' not in page:
        return []
    table = page[page.index('id="needs-you"') :].partition("</table>")[0]
    rows = re.findall(r'<tr id="needs-.*?</tr>', table, re.DOTALL)
    return [
        re.findall(r'class="st .*?</svg>\s*([^<]+)</span>.*?class="name"><a [^>]*>([^<]+)<', row, re.DOTALL)[0]
        for row in rows
    ]


def steps(page: str) -> list[str]:
    """The marks of the first steps."""
    if 'id="first-steps"' not in page:
        return []
    return re.findall(r'<li class="(\w+)">', page[page.index('id="first-steps"') :].partition("</ol>")[0])


async def test_the_first_page_lists_what_needs_the_reader_the_most_urgent_first(
    application: Application, jobs: dict[str, str]
) -> None:
    """Everybody landed on the list of runners, whatever waited for them."""
    await application.person("ada", "approver")
    ada = await logged_in(application, "ada")
    page = await ada.see("/dashboard")
    assert needs(page) == [
        ("Awaiting approval", "platform/edge/cdn"),
        ("In doubt", "platform/edge/vpn"),
        ("Failed", "payments/test/ledger"),
        ("Lost", "platform/edge/firewall"),
        ("State in quarantine", "platform/edge/vpn"),
        ("Waiting", "data/warehouse/buckets"),
        ("Drift", "hello"),
    ]
    assert "1 to add, 1 to change, 0 to destroy" in page
    assert "Review plan" in page
    assert "Invalid function argument on main.tf line 7" in page
    assert "until each is adopted or discarded. </div>" in page, "it is the reason, as in the other rows"
    active = page[page.index('id="active"') :]
    assert f"row-{jobs['planning']}" in active
    assert f"row-{jobs['asking']}" not in active, "it is listed above"
    assert (await ada.get("/")).headers["location"] == "/dashboard"


async def test_nobody_is_shown_what_they_may_not_see_or_decide(application: Application, jobs: dict[str, str]) -> None:
    await application.person("vera", "viewer")
    found = needs(await (await logged_in(application, "vera")).see("/dashboard"))
    assert ("Awaiting approval", "platform/edge/cdn") not in found, "a viewer does not approve"
    assert ("Failed", "payments/test/ledger") in found
    await application.person("pat", "approver", "payments")
    assert needs(await (await logged_in(application, "pat")).see("/dashboard")) == [("Failed", "payments/test/ledger")]
    await application.person("nora")
    nobody = await (await logged_in(application, "nora")).see("/dashboard")
    assert "You have no role here yet" in nobody
    assert "ledger" not in nobody
    assert steps(nobody) == []
    await application.person("eve", "owner", organization="elsewhere")
    page = await (await logged_in(application, "eve")).see("/dashboard")
    assert needs(page) == []
    assert steps(page)[1:] == ["pending", "pending"]
    assert "ledger" not in page


async def test_a_failure_needs_nobody_once_the_module_has_another_job(
    application: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(application)
    assert ("Failed", "payments/test/ledger") in needs(await someone.see("/dashboard"))
    assert (
        await application.admin.post("/api/v1/modules/payments%2Ftest%2Fledger/jobs", json={"type": "PLAN"})
    ).status_code == 201
    assert ("Failed", "payments/test/ledger") not in needs(await someone.see("/dashboard"))


async def test_a_plan_that_is_out_of_date_is_left_to_those_who_may_plan_again(
    application: Application, jobs: dict[str, str]
) -> None:
    await change_modules(application.server.db, "platform/edge/cdn", state_version=9)
    await application.person("otto", "operator")
    assert ("Out of date", "platform/edge/cdn") in needs(await (await logged_in(application, "otto")).see("/dashboard"))
    await application.person("vera", "viewer")
    assert (
        "platform/edge/cdn" not in dict(needs(await (await logged_in(application, "vera")).see("/dashboard"))).values()
    )


@on_one
async def test_jobs_that_wait_for_the_same_reason_are_one_row_and_long_lists_are_cut(
    application: Application, jobs: dict[str, str]
) -> None:
    async def work(tx: Tx) -> None:
        made = Company(tx, application.server.organization_id, application.admin.principal.id)
        made.number = 9000
        runner = await tx.one("SELECT id FROM runners WHERE path = 'data/warehouse'")
        assert runner is not None
        for number in range(3):
            module = await made.module(f"data/warehouse/more-{number}", runner_id=runner["id"])
            await made.job(module, JobType.PLAN, "QUEUED")
        for number in range(attention.MAX_LISTED):
            await made.job(await made.module(f"broken/m-{number}"), JobType.PLAN, "FAILED", message="no")

    await application.server.db.write(work)
    page = await (await logged_in(application)).see("/dashboard")
    found = needs(page)
    assert [path for word, path in found if word == "Waiting"] == ["data/warehouse/buckets"]
    assert "and 3 more jobs for the same reason" in page
    assert len([path for word, path in found if word == "Failed"]) == attention.MAX_LISTED
    assert "More failed. " in page


async def test_a_new_organization_sees_its_first_steps_until_they_are_done(application: Application) -> None:
    admin, someone = application.admin, await logged_in(application)
    assert steps(await someone.see("/dashboard")) == ["pending", "pending", "pending"]
    await admin.made("/api/v1/runners", {"name": "crew"})
    page = await someone.see("/dashboard")
    assert steps(page) == ["waiting", "pending", "pending"]
    assert "None of the runners is online" in page
    assert "Nothing needs you" not in page, "there is something to do"
    await admin.made("/api/v1/modules", {"path": "m", "source": SOURCE})
    assert steps(await someone.see("/dashboard")) == ["waiting", "succeeded", "pending"]
    job = await admin.made("/api/v1/modules/m/jobs", {"type": "PLAN"})
    assert steps(await someone.see("/dashboard")) == ["waiting", "succeeded", "waiting"]

    async def work(tx: Tx) -> None:
        made = Company(tx, application.server.organization_id, admin.principal.id)
        made.number = 9000
        runner = await tx.one("SELECT id FROM runners")
        assert runner is not None
        await made.instance(runner["id"], "one")
        await change_jobs(tx, job["id"], status="SUCCEEDED", finished_at=made.now)

    await application.server.db.write(work)
    page = await someone.see("/dashboard")
    assert steps(page) == ["succeeded", "succeeded", "succeeded"]
    assert "First steps: all done" in page
    assert "Nothing needs you" in page
    await application.server.db.write(lambda tx: _succeed(tx, application, attention.MAX_LISTED))
    page = await someone.see("/dashboard")
    assert steps(page) == []
    assert "Nothing needs you" in page


async def _succeed(tx: Tx, application: Application, count: int) -> None:
    made = Company(tx, application.server.organization_id, application.admin.principal.id)
    made.number = 9100
    module = await made.module("often")
    for _ in range(count):
        await made.job(module, JobType.PLAN, "SUCCEEDED")


@on_one
async def test_who_may_not_add_anything_is_told_so(application: Application) -> None:
    await application.person("vera", "viewer")
    vera: Visitor = await logged_in(application, "vera")
    page = await vera.see("/dashboard")
    assert steps(page) == ["pending", "pending", "pending"]
    assert page.count("Your role does not include it.") == 3
    assert "/dashboard/runners/add" not in page


@pytest.mark.feature("P2.overview", "P2.rights")
async def test_people_with_roles_at_groups_see_those_first_and_can_see_all(
    application: Application, jobs: dict[str, str]
) -> None:
    known = (await application.person("ada", "approver")).principal

    async def grant(tx: Tx) -> None:
        organization_id = application.server.organization_id
        await role_store.bind_role(tx, organization_id, "user", known.id, "owner", "group", "payments", "test")

    await application.server.db.write(grant)
    ada = await logged_in(application, "ada")
    assert [path for _, path in needs(await ada.see("/dashboard"))] == ["payments/test/ledger"]
    page = await ada.see("/dashboard?groups=all&span=week")
    assert "platform/edge/cdn" in [path for _, path in needs(page)]
    assert 'aria-current="true">All' in page
    assert 'href="/dashboard?span=week"' in page, "the span stays when the groups change"
    only = await ada.see("/dashboard?place=platform")
    assert {path.partition("/")[0] for _, path in needs(only)} == {"platform"}
    assert (await ada.get("/dashboard?place=nowhere")).status_code == 404
    assert (await ada.get("/dashboard?span=century")).status_code == 200


@pytest.mark.feature("P2.overview")
async def test_runners_that_are_away_or_outdated_are_listed_for_those_who_see_them(
    application: Application, jobs: dict[str, str]
) -> None:
    async def leave(tx: Tx) -> None:
        await tx.run(
            "INSERT INTO runner_outages (runner_id, since) SELECT id, :at FROM runners WHERE path = 'data/warehouse'",
            at=tx.now - 60,
        )

    await application.server.db.write(leave)
    assert ("Offline", "data/warehouse") in needs(await (await logged_in(application)).see("/dashboard"))
    await application.person("pat", "viewer", "payments")
    assert "data/warehouse" not in await (await logged_in(application, "pat")).see("/dashboard")


@pytest.mark.feature("P2.overview")
async def test_shared_runners_that_are_away_or_outdated_are_listed_for_those_who_operate_them(
    application: Application, jobs: dict[str, str]
) -> None:
    """Nobody was told on the overview that a runner of the whole server was away."""

    async def leave(tx: Tx) -> None:
        away = "SELECT id, :at FROM runners WHERE organization_id IS NULL"
        await tx.run("INSERT INTO runner_outages (runner_id, since) " + away, at=tx.now - 60)

    await application.server.db.write(leave)
    await publish_all(application.server.db)
    admin = await logged_in(application)
    assert ("Offline", "built-in") in needs(await admin.see("/dashboard"))
    assert "built-in" not in [path for _, path in needs(await admin.see("/dashboard?place=platform"))]
    await application.person("otto", "owner")
    assert "built-in" not in [path for _, path in needs(await (await logged_in(application, "otto")).see("/dashboard"))]


@pytest.mark.feature("P2.overview", "P2.rights")
async def test_who_sees_a_single_module_is_shown_no_figures_of_groups(
    application: Application, jobs: dict[str, str]
) -> None:
    """What the page said of runners and failures was about groups that the reader cannot see."""
    await application.person("mona")
    grant = {"principal": "mona", "role": "viewer", "kind": "module", "path": "platform/edge/firewall"}
    await application.admin.made("/api/v1/roles", grant)
    page = await (await logged_in(application, "mona")).see("/dashboard")
    assert '<b class="num">1</b> running <b class="num">1</b> waiting' in page
    assert "of groups that you see as a whole" in page
    assert "No job failed" not in page
    assert "No runner" not in page
    assert 'id="figure-jobs"' not in page


@pytest.mark.feature("P2.classes")
async def test_the_page_of_a_failed_job_says_who_can_mend_it(application: Application, jobs: dict[str, str]) -> None:
    page = await (await logged_in(application)).see(f"/dashboard/jobs/{jobs['failed']}")
    assert 'id="failure-class"' in page
