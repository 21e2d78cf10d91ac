"""What a test cannot do without: on a developer's machine it is skipped, and a build fails that could not run it."""

import os
import shutil

import pytest

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same engine without a window: it needs two thirds of the processor time of the second."""


def need(missing: str | None) -> None:
    """Go on if nothing is missing. A build that leaves half of the product out is none to trust."""
    if missing:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)


def chromium() -> str:
    """The browser's program."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    need(None if found else "no Chromium here")
    assert found is not None
    return found
