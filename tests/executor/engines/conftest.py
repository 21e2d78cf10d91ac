"""An empty cache, a bare PATH and a release site for the tests of engines."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from .release_site import ReleaseSite


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it."""
    monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which nothing is installed: its only directory is returned."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReleaseSite]:
    """A release site on loopback that the product takes for OpenTofu's."""
    site = ReleaseSite()
    thread = threading.Thread(target=site.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("TERRACREW_TOFU_RELEASES", site.url)
    yield site
    site.server.shutdown()
    thread.join()
    site.server.server_close()
