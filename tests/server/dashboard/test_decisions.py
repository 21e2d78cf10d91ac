"""What people decide from pages: shown to those who may, refused to those who may not, and done by a plain form."""

import time

import pytest

from tests.server.application import Application
from tests.server.dashboard.visitor import Visitor, logged_in, visitor

pytestmark = pytest.mark.feature("U5")


@pytest.fixture
def long_listening(world: Application) -> None:
    """Its server has listened for so long that whoever was not heard is silent."""
    world.server.registry.now = lambda: time.monotonic() + 500


async def page_of(someone: Visitor, job: str) -> str:
    return await someone.see(f"/dashboard/jobs/{job}")


@pytest.mark.feature("J8")
async def test_an_approver_sees_the_plan_and_approves_it_by_a_form(world: Application, jobs: dict[str, str]) -> None:
    await world.person("abe", "approver")
    someone = await logged_in(world, "abe")
    page = await page_of(someone, jobs["asking"])
    for word in (
        "This plan is awaiting approval",
        "+1 to add",
        "5 h 40 m",
        "admin queued this job",
        "version 3 of the state",
    ):
        assert word in page, word
    done = await someone.submit(f"/dashboard/jobs/{jobs['asking']}/approve", plan="1")
    assert done.status_code == 303, done.text
    after = await page_of(someone, jobs["asking"])
    assert "This plan is awaiting approval" not in after
    assert "Approved by</dt><dd>abe" in after
    again = await someone.submit(f"/dashboard/jobs/{jobs['asking']}/approve", plan="1")
    assert (again.status_code, "is not waiting for approval" in again.text) == (409, True)


@pytest.mark.feature("J8")
async def test_a_plan_that_is_not_the_one_of_the_page_is_not_approved(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    await page_of(someone, jobs["doubt"])
    wrong = await someone.submit(f"/dashboard/jobs/{jobs['doubt']}/approve", plan="1")
    assert wrong.status_code in (404, 409)
    assert await world.scalar("SELECT status FROM jobs WHERE id = :id", id=jobs["doubt"]) == "AWAITING_APPROVAL"


@pytest.mark.feature("J8")
async def test_a_plan_is_declined_and_the_job_says_why(world: Application, jobs: dict[str, str]) -> None:
    someone = await logged_in(world)
    await page_of(someone, jobs["asking"])
    done = await someone.submit(f"/dashboard/jobs/{jobs['asking']}/decline", plan="1", reason="<b>too early</b>")
    assert done.status_code == 303
    page = await page_of(someone, jobs["asking"])
    assert "Declined by admin: &lt;b&gt;too early&lt;/b&gt;." in page
    assert "Declined by</dt><dd>admin" in page


@pytest.mark.feature("O3")
async def test_a_lost_attempt_is_shown_with_what_is_known_and_given_up_by_its_number(
    world: Application, jobs: dict[str, str], long_listening: None
) -> None:
    someone = await logged_in(world)
    page = await page_of(someone, jobs["lost"])
    for word in (
        "Attempt 1 was lost during a change",
        "terraform_data.rule[4]: Creating...",
        "in the step Apply",
        "Perhaps:",
        "it may be changing resources",
        "orphaned",
        "given up in",
    ):
        assert word in page, word
    form = {"attempt": "1", "confirm": "404"}
    wrong = await someone.submit(f"/dashboard/jobs/{jobs['lost']}/gone", **form)
    assert (wrong.status_code, "type the number of this job: 408" in wrong.text) == (400, True)
    done = await someone.submit(f"/dashboard/jobs/{jobs['lost']}/gone", **form | {"confirm": "#408"})
    assert done.status_code == 303, done.text
    after = await page_of(someone, jobs["lost"])
    assert "admin said that it is gone" in after
    assert "in doubt" in after


@pytest.mark.feature("O3")
async def test_in_doubt_what_is_known_comes_before_the_buttons_and_a_late_note_stays(
    world: Application, jobs: dict[str, str]
) -> None:
    page = await page_of(await logged_in(world), jobs["doubt"])
    known, buttons = page.index("terraform_data.tunnel: Creating..."), page.index('id="approve-job"')
    assert known < buttons
    assert "ada said that it is gone" in page
    assert "attempt 1 reported FAILED too late: out of time" in page


@pytest.mark.feature("O3")
async def test_states_in_quarantine_are_shown_with_what_is_current_and_decided_about(
    world: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(world)
    page = await page_of(someone, jobs["held"])
    for word in ("2 states wait for your decision", "9; the current one is 7", "errored.tfstate", "(the same)"):
        assert word in page, word
    assert page.count("adopting it takes the module back") == 2, "said beside the older one and before it is adopted"
    sql = "SELECT id FROM states WHERE status = 'quarantined' AND serial = :serial"
    newer, older = await world.scalar(sql, serial=9), await world.scalar(sql, serial=6)
    assert (await someone.submit(f"/dashboard/states/{newer}/adopt")).status_code == 303
    done = await someone.submit(f"/dashboard/states/{older}/discard")
    module = await someone.see(done.headers["location"])
    assert "wait for your decision" not in module
    assert "version 4" in module
    assert (await someone.submit(f"/dashboard/states/{older}/discard")).status_code == 409


@pytest.mark.feature("S6")
async def test_the_module_page_shows_an_orphaned_lock_and_where_to_free_it(
    world: Application, jobs: dict[str, str]
) -> None:
    someone = await logged_in(world)
    module = await world.scalar("SELECT module_id FROM jobs WHERE id = :id", id=jobs["lost"])
    page = await someone.see(f"/dashboard/modules/{module}")
    assert "The lock of its state is orphaned" in page
    assert f"/dashboard/jobs/{jobs['lost']}#lost" in page
    listing = await someone.see("/dashboard/modules")
    assert "Lock orphaned" in listing
    assert "A state waits for your decision" in listing


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_who_may_not_decide_is_shown_no_buttons_and_refused(
    world: Application, jobs: dict[str, str], role: str, long_listening: None
) -> None:
    await world.person("otto", role)
    someone = await logged_in(world, "otto")
    pages = {name: await page_of(someone, jobs[name]) for name in ("asking", "lost", "held")}
    assert "approve-job" not in pages["asking"]
    assert "approver" in pages["asking"]
    assert "An owner can decide." in pages["held"]
    assert ("gone-job" in pages["lost"]) is (role == "operator")
    state = await world.scalar("SELECT id FROM states WHERE status = 'quarantined' LIMIT 1")
    refused = {
        f"/dashboard/jobs/{jobs['asking']}/approve": {"plan": "1"},
        f"/dashboard/jobs/{jobs['asking']}/decline": {"plan": "1"},
        f"/dashboard/states/{state}/adopt": {},
        f"/dashboard/states/{state}/discard": {},
    }
    if role == "viewer":
        refused[f"/dashboard/jobs/{jobs['lost']}/gone"] = {"attempt": "1", "confirm": "408"}
    await someone.see("/dashboard/runners")
    for path, form in refused.items():
        assert (await someone.submit(path, **form)).status_code == 403, path


async def test_without_the_token_of_the_page_nothing_is_decided(world: Application, jobs: dict[str, str]) -> None:
    someone, state = (
        await logged_in(world),
        await world.scalar("SELECT id FROM states WHERE status = 'quarantined' LIMIT 1"),
    )
    for path in (
        f"/dashboard/jobs/{jobs['asking']}/approve",
        f"/dashboard/jobs/{jobs['asking']}/decline",
        f"/dashboard/jobs/{jobs['lost']}/gone",
        f"/dashboard/states/{state}/adopt",
        f"/dashboard/states/{state}/discard",
    ):
        assert (await someone.post(path, data={"plan": "1", "attempt": "1", "confirm": "408"})).status_code == 403
        assert (await visitor(world).post(path, data={"plan": "1"})).status_code in (303, 403)
