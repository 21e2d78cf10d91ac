"""The second half of all pages."""

import pytest
from playwright.async_api import Page

from tests.server.dashboard.browser.every_page import MIDDLE, faults_of_pages
from tests.server.dashboard.company.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.browser]


@pytest.mark.feature("U1.list", "U5.list", "U5.page", "U6.tree")
@pytest.mark.timeout(300)
async def test_every_other_page_fits_every_width_and_is_for_everybody(page: Page, stage: Stage) -> None:
    assert await faults_of_pages(page, stage, since=MIDDLE) == []
