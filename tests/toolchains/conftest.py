"""An empty cache, a bare PATH and a release site for the tests of engines."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pysequoia
import pytest

from terracrew.toolchains import cache, go_toolchain, specs
from terracrew.toolchains.signatures import verification

from .release_site import ReleaseSite


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with nothing in it."""
    monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def shared_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache but for Go: where PATH has none, all tests build with the one in the user's cache."""
    if shutil.which("go") is None:
        monkeypatch.delenv("TERRACREW_CACHE", raising=False)
        go_toolchain.get("1.19", tmp_path, lambda _: None)
        installed = cache.root() / "go"
        monkeypatch.setenv("TERRACREW_CACHE", str(tmp_path / "cache"))
        (tmp_path / "cache").mkdir(exist_ok=True)
        (tmp_path / "cache" / "go").symlink_to(installed)


@pytest.fixture
def bare_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH on which nothing is installed: its only directory is returned."""
    folder = tmp_path / "path"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def releases(monkeypatch: pytest.MonkeyPatch) -> Iterator[ReleaseSite]:
    """A release site on loopback that the product takes for OpenTofu's."""
    releases = ReleaseSite()
    thread = threading.Thread(target=releases.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    monkeypatch.setenv("TERRACREW_TOFU_RELEASES", releases.url)
    monkeypatch.setattr(specs, "ARCHIVES", {})  # what it serves is not what OpenTofu released
    fingerprint = releases.certificate.fingerprint
    accepted = {name: verification.Publisher(one.title, fingerprint) for name, one in verification.PUBLISHERS.items()}
    monkeypatch.setattr(verification, "PUBLISHERS", accepted)

    def key(_: str) -> pysequoia.Cert:
        return releases.certificate

    monkeypatch.setattr(verification, "key", key)
    yield releases
    releases.server.shutdown()
    thread.join()
    releases.server.server_close()
