"""Checks a page with axe-core for what people with a keyboard, a screen reader or weak eyes need."""

from axe_playwright_python.base import AXE_SCRIPT
from playwright.async_api import Page

_FAULTS = """async (rules) => (await axe.run({ resultTypes: ["violations"], ...(rules ? { runOnly: rules } : {}) })).violations
    .map((rule) => `${rule.help}: ${rule.nodes[0].html.slice(0, 200)}`)"""


async def faults(page: Page) -> list[str]:
    """Return the rules that the page breaks as it is shown now, each with the first element that breaks it."""
    await page.evaluate(AXE_SCRIPT)
    return await page.evaluate(_FAULTS, None)


async def contrast_faults(page: Page) -> list[str]:
    """Check only the contrast of texts, on a page that `faults` has checked: other colours break no other rule."""
    return await page.evaluate(_FAULTS, ["color-contrast"])
