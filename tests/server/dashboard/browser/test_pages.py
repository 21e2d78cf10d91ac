"""What pages do in a real browser: live changes, filters, dialogs. `test_every_page` looks at how they look."""

import asyncio
import contextlib
import json
import re
from collections.abc import Callable

import pytest
from playwright.async_api import Browser, BrowserContext, Error, Page, Route, expect

from terracrew.fleet.messages import StepBegun, StepDone
from terracrew.server.db.seam import Tx
from tests.builders.job_rows import change_instances, change_jobs
from tests.server.dashboard.company.fleet import TASK, FleetCompany, report
from tests.server.dashboard.company.stage import PASSWORD, Stage
from tests.server.dashboard.conftest import SHOTS

TOASTS_AFTER_A_FAILED_REFRESH = """() => new Promise((done) => {
    const count = () => done(document.querySelector("#toasts").children.length);
    document.addEventListener("htmx:sendError", () => setTimeout(count), { once: true });
    document.querySelector("#job").dispatchEvent(new Event("refresh"));
})"""
pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


async def test_a_one_time_link_asks_for_a_password_and_logs_the_browser_in(browser: Browser, stage: Stage) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(stage.link)
    await page.fill("#password", PASSWORD)
    await page.fill("#again", PASSWORD)
    await page.click("button[type=submit]")
    await page.wait_for_url("**/dashboard")
    await context.close()


@pytest.mark.feature("U4.live")
async def test_a_change_appears_without_a_reload_and_the_focus_stays_where_it_was(page: Page, stage: Stage) -> None:
    await page.goto("/dashboard/runners")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    row = page.locator("tr", has=page.get_by_text("frankfurt-prod", exact=True))
    await expect(row.locator(".st")).to_have_text("Online")
    await page.evaluate("window.sameDocument = true")
    runner = await row.get_attribute("id") or ""

    async def goes_away(tx: Tx) -> None:
        await change_instances(tx, runner, is_connected=False)
        tx.wake("runners", runner)

    await page.locator("#search").focus()
    await stage.write(goes_away)
    await expect(row.locator(".st")).to_have_text("Asleep")
    await expect(page.locator("#search")).to_be_focused()
    assert await page.evaluate("window.sameDocument") is True


@pytest.mark.feature("U6.clouds", "W1.identities")
async def test_a_cloud_identity_is_created_and_its_policy_copied(page: Page, context: BrowserContext) -> None:
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    await page.goto("/dashboard/runners")
    await page.click("#cloud-identities")
    await page.click("#create")
    await page.fill("#name", "aws-test")
    await page.fill("#role-arn", "arn:aws:iam::123456789012:role/crew")
    await page.fill("#region", "Frankfurt")
    await page.get_by_role("button", name="Create cloud identity").click()
    await expect(page.locator("#region-wrong")).to_contain_text("is not the name of an AWS region")
    await page.fill("#region", "eu-central-1")
    await page.get_by_role("button", name="Create cloud identity").click()
    await expect(page.locator("h1")).to_have_text("aws-test")
    await page.get_by_role("button", name="Copy trust policy").click()
    await expect(page.get_by_role("button", name="Copy trust policy")).to_have_text("Copied")
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    assert "cloud-identity:aws-test:" in str(copied["Statement"][0]["Condition"])
    await page.get_by_role("link", name="OpenTofu").click()
    await expect(page.locator("#policy-opentofu")).to_contain_text("aws_iam_role")
    await page.click("#test")
    await expect(page.locator(".head .st")).to_have_text("Testing")


@pytest.mark.feature("U4.live", "W4.fleet")
async def test_a_deployment_is_followed_live_and_its_cancel_names_what_it_removes(page: Page, stage: Stage) -> None:
    job, log = await FleetCompany(stage.server.db, stage.server.organization_id).running()
    await page.goto(f"/dashboard/fleet-jobs/{job.number}")
    await expect(page.locator(".checks .now")).to_contain_text("pulling the image")
    await page.evaluate("window.sameDocument = true")
    await report(log, StepDone(job.id, 1, "task", TASK, "41 s"), StepBegun(job.id, 1, "hello", "Says hello"))
    await expect(page.locator(".checks .now")).to_contain_text("Says hello")
    await expect(page.locator(".fleet-log")).to_contain_text("First task: 41 s")
    await page.click("#cancel-fleet-job")
    await expect(page.locator("#confirm")).to_contain_text("is removed again: 2 resources.")
    await page.click("#confirm [data-yes]")
    await expect(page.locator(".head .st")).to_have_text("Canceling")
    assert await page.evaluate("window.sameDocument") is True


@pytest.mark.feature("U4.live")
@pytest.mark.parametrize("path", ["/dashboard/modules", "/dashboard/runners", "/dashboard/jobs"])
async def test_what_is_typed_into_a_search_survives_a_live_change(page: Page, stage: Stage, path: str) -> None:
    """Text that was typed just after the page had loaded, or while anything happened, was reset by the next change."""
    await page.goto(path)
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    # Without an event, as where the scripts were not there yet: only the live change looks at the box.
    await page.evaluate("document.querySelector('#search').value = 'ledger'")

    async def change(tx: Tx) -> None:
        tx.wake("jobs", stage.jobs["failed"])
        tx.wake("runners", "any")
        tx.wake("tree", "any")

    async with page.expect_response(lambda answer: path in answer.url):
        await stage.write(change)
    await expect(page.locator(".htmx-request, .htmx-settling, .htmx-swapping")).to_have_count(0)
    await expect(page.locator("#search")).to_have_value("ledger")


@pytest.mark.feature("J11.diff", "U4.live")
async def test_a_plan_is_searched_filtered_and_unfolded_and_shows_a_new_plan(page: Page, stage: Stage) -> None:
    job = stage.jobs["planning"]
    await page.goto(f"/dashboard/jobs/{job}")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    resources = page.locator("details.rc")
    await expect(resources).to_have_count(3)
    await page.keyboard.press("/")
    await page.keyboard.type("pcx-2")
    await expect(resources).to_have_count(1)
    await expect(page.locator("#plan-search")).to_be_focused()
    await page.locator("#plan-search").fill("")
    await expect(resources).to_have_count(3)
    await page.locator(".kinds a", has_text="Create").click()
    await expect(resources).to_have_count(1)
    await page.locator(".kinds a", has_text="All").click()
    await expect(resources).to_have_count(3)
    await page.locator("[data-fold]").click()
    await expect(page.locator("details.rc[open]")).to_have_count(3)
    await expect(page.locator("[data-fold]")).to_have_text("Collapse all")

    async def change(tx: Tx) -> None:
        await tx.run("DELETE FROM plan_diffs WHERE job_id = :id", id=job)
        tx.wake("jobs", job)

    await stage.write(change)
    await expect(resources).to_have_count(0)
    await expect(page.locator("#plan")).to_contain_text("terraform_data.peering")


@pytest.mark.usefixtures("stage")
async def test_jobs_are_filtered_as_one_types(page: Page) -> None:
    """Jobs were filtered only on Enter, and only by a whole path, unlike the lists of the other pages."""
    await page.goto("/dashboard/jobs")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await page.keyboard.press("/")
    await page.keyboard.type("ledg")
    await expect(page.locator("#jobs tbody tr")).to_have_count(2)
    await expect(page.locator("#search")).to_be_focused()
    await page.fill("#search", "#401")
    await expect(page.locator("#jobs tbody tr")).to_have_count(1)
    await page.fill("#search", "zzz")
    await expect(page.get_by_text("No jobs match “zzz”")).to_be_visible()
    await page.fill("#search", "#401")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/dashboard/jobs/job_*")


@pytest.mark.feature("U4.live")
async def test_a_burst_of_changes_costs_a_few_requests_and_the_last_one_is_seen(page: Page, stage: Stage) -> None:
    await page.goto("/dashboard/jobs")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/dashboard/jobs" in request.url else None)
    for at in range(40):

        async def change(tx: Tx, at: int = at) -> None:
            await change_jobs(tx, stage.jobs["failed"], message=f"change {at}")
            tx.wake("jobs", stage.jobs["failed"])

        await stage.write(change)
    await expect(page.get_by_text("Change 39.")).to_be_visible()
    assert len(asked) <= 5


@pytest.mark.feature("U4.live")
async def test_the_live_mark_says_when_it_is_not_live_and_the_page_catches_up(
    context: BrowserContext, stage: Stage
) -> None:
    page = await context.new_page()  # its console does complain: the server is gone
    await page.goto("/dashboard/jobs")
    mark = page.locator("[data-live-mark]")
    await expect(mark).to_have_text("Live")
    await stage.stop()
    await expect(mark).to_have_text("Reconnecting…")
    await stage.start()

    async def change(tx: Tx) -> None:
        await change_jobs(tx, stage.jobs["failed"], message="while nobody listened")

    await stage.write(change)  # no wake-up: only coming back can bring this
    await expect(mark).to_have_text("Live", timeout=30_000)
    await expect(page.get_by_text("While nobody listened.")).to_be_visible()


@pytest.mark.feature("U5.page")
async def test_a_dangerous_action_is_confirmed_by_a_dialog_that_names_the_thing(page: Page, stage: Stage) -> None:
    await page.goto("/dashboard/modules")
    await page.get_by_role("button", name="More actions for payments/test/ledger").click()
    await page.get_by_role("link", name="Destroy…").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Destroy payments/test/ledger?")
    await expect(page.get_by_text("there is nothing to destroy")).to_be_visible()
    await page.screenshot(path=SHOTS / "destroy.png", animations="disabled")
    await page.get_by_role("link", name="Cancel").click()
    await page.goto("/dashboard/modules")
    dialog = page.get_by_role("dialog")
    await page.get_by_role("button", name="Apply hello").click()
    await dialog.get_by_label("Show me the plan first").uncheck()
    await dialog.get_by_role("button", name="Apply hello").click()
    await page.wait_for_url("**/dashboard/jobs/job_*")
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Apply #")
    await page.get_by_role("button", name="Cancel").click()
    await dialog.get_by_role("button", name="Cancel job").click()
    await expect(page.locator("#job-head .st")).to_have_text("Canceled")


@pytest.mark.feature("J9.modes")
async def test_a_running_job_is_canceled_in_the_way_that_was_chosen(page: Page, stage: Stage) -> None:
    await page.goto(f"/dashboard/jobs/{stage.jobs['applying']}")
    await page.get_by_role("button", name="Cancel").click()
    await page.screenshot(path=SHOTS / "cancel.png", animations="disabled")
    await page.get_by_role("radio", name="Interrupt").check()
    await page.get_by_role("button", name="Cancel job").click()
    await expect(page.get_by_role("dialog")).to_be_hidden()
    await expect(page.locator("#job-head .st")).to_have_text("Canceling")
    await expect(page.locator("#toasts")).to_contain_text("asked to stop")
    row = await stage.server.db.read(
        lambda tx: tx.one("SELECT cancel_mode FROM jobs WHERE id = :id", id=stage.jobs["applying"])
    )
    assert row == {"cancel_mode": "interrupt"}


async def test_a_refusal_is_said_where_the_reader_is(context: BrowserContext, stage: Stage) -> None:
    page = await context.new_page()  # a refused request is in its console
    row = await stage.server.db.read(lambda tx: tx.one("SELECT id FROM runners WHERE path = 'data/warehouse'"))
    assert row is not None
    await page.goto(f"/dashboard/runners/{row['id']}")
    await page.locator("#assign-open").click()
    await expect(page.locator("#place")).to_be_focused()
    await page.keyboard.type("platform")
    await page.keyboard.press("Enter")
    await expect(page.locator("#toasts")).to_contain_text("a runner can only be assigned inside its own group")
    await expect(page.locator("#place")).to_have_value("platform")


async def test_the_choice_of_light_or_dark_is_kept(page: Page) -> None:
    await page.goto("/dashboard/runners")
    background = "getComputedStyle(document.body).backgroundColor"
    light = await page.evaluate(background)
    for _ in range(2):
        await page.get_by_role("button", name="Theme").click()
    await expect(page.get_by_role("button", name="Theme: dark")).to_be_visible()
    dark = await page.evaluate(background)
    await page.reload()
    assert await page.evaluate(background) == dark != light


async def test_motion_is_only_for_those_who_want_it(page: Page, stage: Stage) -> None:
    moving = "getComputedStyle(document.querySelector('.steps .busy svg')).animationName"
    for wish, name in (("reduce", "none"), ("no-preference", "turn")):
        await page.emulate_media(reduced_motion=wish)  # pyright: ignore[reportArgumentType]
        await page.goto(f"/dashboard/jobs/{stage.jobs['applying']}")
        assert await page.evaluate(moving) == name


async def test_pages_work_without_scripts(browser: Browser, context: BrowserContext, stage: Stage) -> None:
    plain = await browser.new_context(
        java_script_enabled=False, base_url=stage.url, storage_state=await context.storage_state()
    )
    page = await plain.new_page()
    await page.goto("/dashboard/runners")
    await expect(page.locator("[data-live-mark]")).to_have_text("Not live")
    row = page.locator("tr", has=page.get_by_text("frankfurt-prod", exact=True))
    await row.get_by_role("button", name="Actions for frankfurt-prod").click()  # a menu opens without scripts
    await row.get_by_role("button", name="Drain It finishes").click()
    await expect(page.locator("#runner .st").first).to_have_text("Draining")
    await page.goto("/dashboard/runners")
    await page.get_by_role("link", name="Add runner").click()
    await page.get_by_label("Name").fill("plain")
    await page.get_by_role("button", name="Register").click()
    await expect(page.locator("#worker-env")).to_contain_text("tcw_")
    await page.goto(f"/dashboard/jobs/{stage.jobs['done']}")
    await expect(page.get_by_role("link", name="The log as plain text")).to_be_visible()
    await plain.close()


@pytest.mark.feature("U4.live")
async def test_a_heartbeat_that_wakes_nobody_is_seen_all_the_same(page: Page, stage: Stage) -> None:
    await page.clock.install()
    await page.goto("/dashboard/runners")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")

    async def beat(tx: Tx) -> None:
        await change_instances(tx, version="9.9.9")

    await stage.write(beat)
    await page.clock.run_for(12_000)
    await expect(page.get_by_text("9.9.9").first).to_be_visible()


@pytest.mark.feature("U4.live")
@pytest.mark.parametrize("path", ["/dashboard/modules", "/dashboard/runners", "/dashboard/jobs"])
async def test_a_search_that_a_refresh_swallowed_is_repeated(page: Page, stage: Stage, path: str) -> None:
    """The box held a text and the list showed everything, when a live change arrived just as the search began."""
    await page.goto(path)
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await page.evaluate(
        """() => { window.swallowed = new Promise((done) => document.addEventListener(
          "typed", (event) => (event.stopImmediatePropagation(), done(true)), { capture: true, once: true })); }"""
    )
    await page.fill("#search", " ledger")
    assert await page.evaluate("window.swallowed")

    async def change(tx: Tx) -> None:
        for topic in ("jobs", "runners", "tree"):
            tx.wake(topic, "any")

    await stage.write(change)
    await expect(page.locator("#search")).to_have_attribute("data-searched", re.compile(r"^\s?ledger$"))
    await expect(page.locator("#search")).to_have_value(" ledger")


async def test_a_refresh_that_was_under_way_does_not_undo_a_search(page: Page) -> None:
    """The list came back whole, and stayed so, when a live refresh was answered after the search that it overlapped."""
    await page.goto("/dashboard/runners")
    held: list[Route] = []

    async def hold(route: Route) -> None:
        if "q=" in route.request.url or route.request.headers.get("hx-request") != "true":
            await route.continue_()
        else:
            held.append(route)

    await page.route("**/dashboard/runners*", hold)
    await page.evaluate("document.querySelector('#runners').dispatchEvent(new Event('refresh'))")
    await expect_soon(lambda: held)
    await page.locator("#search").fill("net-b")
    await expect(page.get_by_text("frankfurt-prod", exact=True)).to_be_hidden()
    for route in held:
        with contextlib.suppress(Error):  # the page itself may have given it up, which is the point
            await route.continue_()
    await page.wait_for_timeout(300)
    await expect(page.get_by_text("frankfurt-prod", exact=True)).to_be_hidden()


async def expect_soon(probe: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not probe():
            await asyncio.sleep(0.02)


async def test_only_what_a_person_did_gets_a_message_when_the_server_does_not_answer(
    context: BrowserContext, page: Page, stage: Stage
) -> None:
    """A page that refreshed itself said that nothing was changed, although nobody had done anything."""
    other = await context.new_page()  # its console does complain
    await other.goto(f"/dashboard/jobs/{stage.jobs['asking']}")
    await expect(other.locator("[data-live-mark]")).to_have_text("Live")
    await context.set_offline(True)
    assert await other.evaluate(TOASTS_AFTER_A_FAILED_REFRESH) == 0
    await other.get_by_label("Priority of this job").fill("3")
    await other.get_by_role("button", name="Set").click()
    await expect(other.locator("#toasts")).to_contain_text("The server does not answer")
    await context.set_offline(False)
    await other.close()
