"""Looks at a page as people see it: light and dark, on a desk, a tablet and a phone.

With `SCREENSHOTS=1` in the environment, a picture of each look is written to build/screenshots.
"""

import os

from playwright.async_api import Page

from tests.server.dashboard.browser.accessibility import faults
from tests.server.dashboard.conftest import SHOTS
from tests.thoroughness import IS_THOROUGH

LOOKS = [("light", 1440), ("dark", 820), ("dark", 390)]
FULL_LOOKS = [LOOKS[0], LOOKS[2]]
"""The looks that axe checks: both schemes, and both arrangements of a page. axe takes the most time, so that each page gets one of
them, by turns; `make test-thorough` checks both."""


async def look(page: Page, name: str) -> None:
    """Look at a page in light and dark on three widths: nothing is cut off, hard to read or without a name."""
    full_looks = FULL_LOOKS if IS_THOROUGH else [FULL_LOOKS[len(name) % len(FULL_LOOKS)]]
    for scheme, width in LOOKS:
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # pyright: ignore[reportArgumentType]
        await page.set_viewport_size({"width": width, "height": 900})
        if os.environ.get("SCREENSHOTS"):
            # To hide the caret, a style attribute is set on each field. htmx copies it to what it swaps in, and the policy refuses it.
            path = SHOTS / f"{name}-{scheme}-{width}.png"
            await page.screenshot(path=path, animations="disabled", caret="initial")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width, f"{name} at {width}"
        if (scheme, width) in full_looks:
            assert await faults(page) == [], f"{name} {scheme} {width}"
    await page.set_viewport_size({"width": 1280, "height": 860})
