"""People look at a plan first and apply exactly this plan, in a real browser: light and dark, on a desk and on a phone."""

import re

import pytest
from playwright.async_api import Page, expect

from terracrew.server.db.seam import Tx
from tests.conftest import SQLITE_AT_LEAST
from tests.server.dashboard.browser.looks import look
from tests.server.dashboard.company import kept_plans
from tests.server.dashboard.company.rows import Company
from tests.server.dashboard.company.stage import Stage

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.browser,
    pytest.mark.feature("J8.plan-first"),
    pytest.mark.parametrize("stage", SQLITE_AT_LEAST, indirect=True),
]


async def planned(stage: Stage, **fields: object) -> str:
    found: list[str] = []

    async def work(tx: Tx) -> None:
        made = Company(tx, stage.server.organization_id, stage.user_id)
        made.number = 900
        is_destroy = bool(fields.get("is_destroy_plan"))
        summary = kept_plans.DESTROYS_TWO if is_destroy else kept_plans.CHANGES_TWO
        _, job = await kept_plans.kept_plan(made, stage.server.keys, "platform/edge/planned", summary, **fields)
        found.append(job)

    await stage.write(work)
    return found[0]


async def test_a_plan_that_was_looked_at_is_applied(page: Page, stage: Stage) -> None:
    job = await planned(stage)
    await page.goto(f"/dashboard/jobs/{job}")
    await expect(page.locator("#apply-plan")).to_contain_text("This plan has changed nothing yet")
    await look(page, "plan-to-apply")
    await page.click("#apply-job")
    await expect(page.locator("h1")).to_contain_text("Apply #")
    await expect(page.locator("#plan-of")).to_contain_text("made by job #901")
    await expect(page.locator("#plan")).to_contain_text("1 to add")
    await look(page, "plan-applied-by")
    await page.click("#plan-of a")
    await expect(page.locator("#applied-by")).to_contain_text("applies this plan")
    await look(page, "plan-taken")


async def test_a_destroy_plan_asks_once_more_before_it_is_applied(page: Page, stage: Stage) -> None:
    job = await planned(stage, is_destroy_plan=True)
    await page.goto(f"/dashboard/jobs/{job}")
    await page.click("#apply-job")
    await expect(page.locator("#confirm")).to_contain_text("Destroy 2 resources in platform/edge/planned?")
    await look(page, "destroy-plan-confirmed")
    await page.click("#confirm [data-yes]")
    await expect(page.locator("h1")).to_contain_text("Destroy #")


async def test_the_dialog_of_apply_offers_the_plan_first_and_remembers_the_choice(page: Page, stage: Stage) -> None:
    await page.goto("/dashboard/modules?q=hello")
    await page.get_by_role("button", name="Apply hello", exact=True).click()
    dialog, first = page.locator("#confirm"), page.locator("#confirm-first")
    await expect(first).to_be_checked()
    await expect(dialog).to_contain_text("changes nothing")
    await look(page, "apply-plan-first")
    await page.click("#confirm [data-yes]")
    await expect(page.locator("h1")).to_contain_text("Plan #")
    await page.goto("/dashboard/modules?q=hello")
    await page.get_by_role("button", name="Apply hello", exact=True).click()
    await first.uncheck()
    await expect(dialog.locator("[data-yes]")).to_have_text("Apply hello")
    await expect(dialog).to_contain_text("applies the plan without asking again")
    await page.keyboard.press("Escape")
    await page.reload()
    await page.get_by_role("button", name="Apply hello", exact=True).click()
    await expect(first).not_to_be_checked()
    await page.click("#confirm [data-yes]")
    await expect(page.locator("h1")).to_have_text(re.compile("Apply #"))


async def test_a_confirmation_of_something_else_offers_no_plan(page: Page, stage: Stage) -> None:
    await page.goto(f"/dashboard/jobs/{stage.jobs['asking']}")
    await page.click("#approve-job")
    await expect(page.locator("#confirm")).to_be_visible()
    await expect(page.locator("#confirm-first")).to_be_hidden()


async def test_a_group_is_planned_as_a_whole_and_what_was_seen_is_applied(page: Page, stage: Stage) -> None:
    found: list[tuple[str, str]] = []

    async def work(tx: Tx) -> None:
        made = Company(tx, stage.server.organization_id, stage.user_id)
        made.number = 900
        found.append(await kept_plans.planned_group(made, stage.server.keys))

    await stage.write(work)
    [(group, run)] = found
    await page.goto(f"/dashboard/groups/{group}/runs/{run}")
    await expect(page.locator("h1")).to_have_text("Plan of shop")
    await expect(page.get_by_role("row", name="shop/queue")).to_contain_text("No changes")
    await look(page, "group-planned")
    await page.click("#apply-planned")
    await expect(page.locator("#confirm")).to_contain_text("Apply these 2 plans and destroy 2 in shop")
    await page.click("#confirm [data-yes]")
    await expect(page.locator("#apply-planned")).to_have_count(0)
    await expect(page.get_by_role("row", name="shop/network")).to_contain_text("Another job applies the plan")
    await look(page, "group-plans-applied")
    await page.goto(f"/dashboard/groups/{group}")
    await page.click("#apply-all")
    await expect(page.locator("#confirm-first")).to_be_checked()
    await page.click("#confirm [data-yes]")
    await expect(page.locator("h1")).to_have_text("Plan of shop")
