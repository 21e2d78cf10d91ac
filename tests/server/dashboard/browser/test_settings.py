"""An owner finds a module, changes every setting of it and deletes it, in a real browser."""

import pytest
from playwright.async_api import Page, expect

from terracrew.protocol.spec import JobType
from terracrew.server.db.seam import Tx
from tests.conftest import SQLITE_AT_LEAST
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]
PLAN = '{"type":"plan","add":4,"change":2,"destroy":3,"resources":[]}'


async def save(page: Page, section: str) -> None:
    await page.locator(f"#save-{section}").click()
    await expect(page.locator(".toast", has_text="Saved:").last).to_be_visible()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("stage", SQLITE_AT_LEAST, indirect=True)
@pytest.mark.feature("U2.jobs", "U6.tree", "J6.inputs", "J6.secrets")
async def test_every_setting_of_a_module_is_changed_in_the_browser(page: Page, stage: Stage) -> None:
    async def work(tx: Tx) -> None:
        company = Company(tx, stage.server.organization_id, stage.user_id)
        company.number = 800
        module = await company.module("platform/cache", "Old words")
        await company.job(module, JobType.APPLY, "DECLINED", finished_at=company.now, plan=PLAN)

    await stage.write(work)

    # The declined job is under its tab, with what its plan would have changed; filters narrow the list without a reload.
    await page.goto("/dashboard/jobs")
    await page.get_by_role("link", name="Declined").click()
    row = page.locator("tr", has_text="platform/cache")
    await expect(row.locator(".counts")).to_have_text("+4 to add ~2 to change −3 to destroy ")
    await page.get_by_text("Filters", exact=True).click()
    await page.get_by_label("Type").select_option("PLAN")
    await expect(page.get_by_text("No job matches all of the filters.")).to_be_visible()
    await look(page, "job-filters")
    await page.get_by_label("Type").select_option("APPLY")
    await expect(row).to_be_visible()

    # The module is found by its newest job; its dangerous actions are in a menu.
    await page.goto("/dashboard/modules")
    await page.get_by_text("Filters", exact=True).click()
    await page.get_by_label("Newest job").select_option("DECLINED")
    await expect(page.locator("td.text .name")).to_have_count(1)
    await look(page, "module-filters")
    await page.get_by_role("button", name="More actions for platform/cache").click()
    await expect(page.get_by_role("link", name="Destroy…")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.get_by_role("link", name="cache", exact=True).click()
    await page.get_by_role("button", name="More actions for platform/cache").click()
    await page.get_by_role("link", name="Settings Approvals").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Settings of cache")
    await look(page, "module-settings")

    # What is wrong stands beside its field, and what was typed in other sections stays.
    await page.locator("#description").fill("New words")
    await page.get_by_label("Time for an approval").fill("soon")
    await page.locator("#save-approval").click()
    await expect(page.locator("#approval-seconds-wrong")).to_contain_text("is not a duration")
    await look(page, "module-settings-wrong")
    await page.get_by_label("Time for an approval").fill("2d")
    await page.get_by_label("Approvals needed").fill("2")
    await save(page, "approval")
    await expect(page.locator("#section-approval")).to_contain_text("2 people for each change")
    await expect(page.locator("#description")).to_have_value("New words")
    await save(page, "general")
    await page.locator("#engine").select_option("terraform")
    await save(page, "engine")
    await page.get_by_label("After a change that was cut short").select_option("retry")
    await save(page, "approval")
    await page.get_by_text("Amazon Web Services").click()
    await page.get_by_label("Role for plans").first.fill("arn:aws:iam::111122223333:role/plan")
    await page.locator("#save-cloud").click()
    await expect(page.locator("#cloud-aws-apply-role-wrong")).to_contain_text("needs this")
    await page.get_by_label("Role for applies and destroys").first.fill("arn:aws:iam::111122223333:role/apply")
    await look(page, "cloud-identity")
    await save(page, "cloud")
    await expect(page.locator("#cloud-aws")).to_contain_text("set here")

    # An input is set, seen and edited; a secret is hidden while it is typed.
    await page.get_by_role("link", name="Inputs").click()
    await page.get_by_label("Name").fill("AWS_REGION")
    await page.get_by_label("Becomes").select_option("environment")
    await page.get_by_label("Value").fill("eu-central-1")
    await page.get_by_role("button", name="Set", exact=True).click()
    await expect(page.get_by_role("cell", name="eu-central-1")).to_be_visible()
    await expect(page.locator("td.first").first).to_have_css("padding-left", "14px")
    await page.get_by_role("link", name="Edit AWS_REGION").click()
    await expect(page.get_by_label("Value")).to_have_value("eu-central-1")
    await page.get_by_label("Value").fill("eu-west-1")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.get_by_role("cell", name="eu-west-1")).to_be_visible()
    await page.get_by_label("Kind").select_option("secret")
    value = page.get_by_label("Value")
    await expect(value).to_have_css("-webkit-text-security", "disc")
    await look(page, "secret-input")
    await page.get_by_label("Show what I type").check()
    await expect(value).to_have_css("-webkit-text-security", "none")

    # It is deleted, after the page has said what that ends.
    await page.goto("/dashboard/modules?q=platform/cache")
    await page.get_by_role("link", name="cache", exact=True).click()
    await page.get_by_role("link", name="Change where it runs").click()
    await page.get_by_label("Also delete its 1 job").check()
    await page.get_by_role("button", name="Delete module…").click()
    await expect(page.get_by_role("dialog")).to_contain_text("Its jobs, logs and states are deleted.")
    await page.get_by_role("dialog").get_by_role("button", name="Delete cache").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("platform")
    await expect(page.get_by_role("link", name="cache", exact=True)).to_have_count(0)
