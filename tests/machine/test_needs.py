"""The tests of pages find a browser under each of its names, and take the quickest one that is installed."""

from pathlib import Path

import pytest

from tests.machine.needs import BROWSERS, chromium


@pytest.mark.parametrize("first", range(len(BROWSERS)))
def test_the_first_browser_of_the_list_that_is_installed_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    for name in BROWSERS[first:]:
        (tmp_path / name).touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert chromium() == str(tmp_path / BROWSERS[first])
