"""Looks at a page as people see it: light and dark, on a desk, a tablet and a phone."""

from playwright.async_api import Page

from tests.server.dashboard.browser.accessibility import faults
from tests.server.dashboard.conftest import SHOTS

LOOKS = [("light", 1440), ("dark", 820), ("dark", 390)]
TABLET = 820
"""Between the two arrangements of a page, so that axe, which takes the most time, would find nothing new."""


async def look(page: Page, name: str) -> None:
    """Look at a page in light and dark on three widths: nothing is cut off, hard to read or without a name."""
    for scheme, width in LOOKS:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # pyright: ignore[reportArgumentType]
        await page.set_viewport_size({"width": width, "height": 900})
        # To hide the caret, a style attribute is set on each field. htmx copies it to what it swaps in, and the policy refuses that.
        path = SHOTS / f"{name}-{scheme}-{width}.png"
        await page.screenshot(path=path, animations="disabled", caret="initial")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} at {width}"
        if width != TABLET:
            assert await faults(page) == [], f"{name} {scheme} {width}"
    await page.set_viewport_size({"width": 1280, "height": 860})
