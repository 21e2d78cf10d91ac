"""What an administrator does with the server is shown at once in every other browser."""

import pytest
from playwright.async_api import BrowserContext, Page, expect

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser, pytest.mark.feature("P4.pages")]


async def test_a_hold_and_an_encryption_are_shown_in_another_browser(page: Page, context: BrowserContext) -> None:
    other = await context.new_page()
    for each in (page, other):
        await each.goto("/dashboard/server")
        await expect(each.locator("[data-live-mark]")).to_have_text("Live")
    await page.click("#start-rekey")
    await page.click("#confirm [data-yes]")
    await expect(other.locator("#stop-rekey")).to_be_visible(timeout=5_000)
    await other.click("#stop-rekey")
    await other.click("#confirm [data-yes]")
    await expect(page.locator("#start-rekey")).to_have_text("Continue…", timeout=5_000)
    await other.fill("#hold-reason", "failover")
    await other.click("#start-hold")
    await expect(other.locator("#confirm")).to_contain_text("Plans still run")
    await other.click("#confirm [data-yes]")
    await expect(page.locator("#to-hold")).to_be_visible(timeout=5_000)
    await page.click("#to-hold")
    await expect(page.locator("[data-live-mark]")).to_have_text("Live")
    await expect(page.locator("#hold")).to_contain_text("failover")
    await other.goto("/dashboard/hold")
    await other.click("#release-all")
    await other.click("#confirm [data-yes]")
    await expect(page.locator("#hold")).to_contain_text("is not held", timeout=5_000)
