"""The first half of all pages, those of an organization without anything, and those before a login."""

import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from terracrew.server.identity.people import service
from tests.server.dashboard.browser.every_page import LISTS, MIDDLE, faults_of_pages, look
from tests.server.dashboard.company.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


@pytest.mark.feature("U1.list", "U2.jobs", "U5.list", "U5.page", "U6.tree", "U6.access")
@pytest.mark.timeout(300)
async def test_every_page_fits_every_width_and_is_for_everybody(
    page: Page, context: BrowserContext, browser: Browser, stage: Stage
) -> None:
    wrong = await faults_of_pages(page, stage, before=MIDDLE)
    await page.goto("/dashboard/organizations")
    await page.get_by_role("button", name="Switch to second").click()
    await expect(page.locator("h1")).to_have_text("second")
    for path in LISTS:  # in an organization where nothing exists yet
        wrong += await look(page, f"/dashboard/{path}".rstrip("/"), is_similar=bool(path))
    missing = await context.new_page()  # its console does complain: the browser reports the status 404
    wrong += await look(missing, "/dashboard/jobs/999999")
    stranger = await browser.new_context(base_url=stage.url)
    door = await stranger.new_page()
    for path in ("/login", f"/login/link/{await service.make_link(stage.server.db, 'elena')}", "/login/link/used-up"):
        wrong += await look(door, path)
    await stranger.close()
    assert wrong == []
