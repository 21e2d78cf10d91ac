"""What pages do for people who use the keyboard alone, in a real browser."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.server.dashboard.company.stage import Stage
from tests.server.dashboard.conftest import SHOTS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


@pytest.mark.usefixtures("stage")
async def test_the_keys_are_told_by_a_key_and_by_a_button(page: Page) -> None:
    """Nothing said that there are keys besides `/`."""
    await page.goto("/dashboard/jobs")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    keys = page.get_by_role("dialog", name="Keys")
    await page.keyboard.press("?")
    await expect(keys).to_contain_text("Search on this page")
    await page.keyboard.press("Escape")
    await expect(keys).to_be_hidden()
    await page.keyboard.press("j")
    await expect(page.locator("td .name a").first).to_be_focused()
    await page.get_by_role("button", name="Keys").click()
    await keys.get_by_role("button", name="Close").click()
    await page.keyboard.press("/")
    await page.keyboard.type("?")
    await expect(page.locator("#search")).to_have_value("?")
    await expect(keys).to_be_hidden()


@pytest.mark.feature("R3.users", "R5.token", "U3.register")
async def test_a_runner_is_added_in_a_sheet_by_keyboard_alone(page: Page) -> None:
    await page.goto("/dashboard/runners")
    await page.locator("#add").focus()
    await page.keyboard.press("Enter")
    sheet = page.get_by_role("dialog")
    await expect(sheet.get_by_label("Name")).to_be_focused()
    await page.screenshot(path=SHOTS / "sheet.png", animations="disabled")
    await page.keyboard.type("by-keyboard")
    await page.keyboard.press("Enter")
    await expect(sheet.get_by_text("by-keyboard is registered")).to_be_visible()
    await expect(sheet.locator("#worker-env")).to_contain_text("tcw_")
    await page.screenshot(path=SHOTS / "sheet-registered.png", animations="disabled")
    copier = sheet.get_by_role("button", name="Copy: Paste this into a shell")
    await copier.click()
    await expect(copier).to_have_text(re.compile("Copied|Selected"))
    await sheet.get_by_role("link", name="Done").click()
    await expect(page.get_by_text("by-keyboard", exact=True)).to_be_visible()


async def test_the_keyboard_reaches_everything_in_the_order_of_the_page_and_focus_is_seen(page: Page) -> None:
    await page.goto("/dashboard/runners")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await page.keyboard.press("/")
    await expect(page.locator("#search")).to_be_focused()
    await page.keyboard.type("net-b")
    await expect(page.get_by_text("frankfurt-prod", exact=True)).to_be_hidden()
    await expect(page.locator("#search")).to_be_focused()
    assert page.url.endswith("?q=net-b")
    await page.goto("/dashboard/runners")
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    seen: list[str] = []
    for _ in range(21):
        await page.keyboard.press("Tab")
        seen.append(
            await page.evaluate(
                "(document.activeElement.getAttribute('aria-label') || document.activeElement.innerText).trim()"
            )
        )
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", seen
    assert seen[1] == "Overview"
    assert seen[2].startswith("Modules")
    assert seen[4].startswith("Runners")
    assert seen[5] == "Access"
    assert (seen[7], seen[10]) == ("Keys", "Server"), seen
    assert [word.split()[0] for word in seen[13:17]] == ["All", "Online", "Draining", "Offline"]
    assert seen[17:] == ["Search runners", "Releases", "Cloud identities", "Add runner"]


async def test_a_form_behind_a_button_takes_the_focus_stays_in_place_and_closes_on_escape(
    page: Page, stage: Stage
) -> None:
    """The button "Decline…" jumped, the field had no focus, and Escape did nothing."""
    await page.goto(f"/dashboard/jobs/{stage.jobs['asking']}")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    before = await page.locator("#decline-open").bounding_box()
    await page.locator("#decline-open").click()
    await expect(page.locator("#decline-reason")).to_be_focused()
    after = await page.locator("#decline-open").bounding_box()
    assert before == after
    await page.keyboard.press("Escape")
    await expect(page.locator("#decline-reason")).to_be_hidden()
    await expect(page.locator("#decline-open")).to_be_focused()
