"""Walks through a page with the Tab key, as people without a mouse do."""

from pathlib import Path

from playwright.async_api import Page

_FOLLOW_WALK = Path(__file__).with_suffix(".js").read_text()
MARGIN_STOPS = 4
"""A walk begins at the field that had the focus, and passes over the end of the page to reach what is before it."""


async def faults(page: Page) -> list[str]:
    """Press Tab through the whole page; return what it does not reach, and where the focus cannot be seen."""
    stops: int = await page.evaluate(_FOLLOW_WALK)
    for _ in range(stops + MARGIN_STOPS):
        await page.keyboard.press("Tab")
    return await page.evaluate("window.endOfTabs()")
