"""Checks a page in the browser for what people with a keyboard, a screen reader or weak eyes need."""

from pathlib import Path

from playwright.async_api import Page

MIN_CONTRAST = 4.5
_FAULTS = Path(__file__).with_suffix(".js").read_text()


async def faults(page: Page) -> list[str]:
    """Return what is wrong: names, ids, headings, references and contrast, of what is visible now."""
    return await page.evaluate(_FAULTS, MIN_CONTRAST)
