from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.powercut.synced import PowerCut


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A directory on the disk whose power is cut."""
    folder = tmp_path / "disk"
    folder.mkdir()
    return folder


@pytest.fixture
def power(disk: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PowerCut]:
    cut = PowerCut(disk, monkeypatch)
    yield cut
    cut.disk.close()
