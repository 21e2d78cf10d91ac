"""What can be made again gives way before a runner stops taking jobs."""

from pathlib import Path

import pytest

from terracrew.runner import disk as disks
from terracrew.runner.disk import Disk


def test_kept_workspaces_are_given_up_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spare = tmp_path / "warm"
    spare.mkdir()
    (spare / "entry").write_bytes(b"x")
    disk = Disk(str(tmp_path), spare)
    assert disk.has_room()
    assert (spare / "entry").exists()
    monkeypatch.setattr(disks, "MIN_FREE_BYTES", 1 << 60)
    monkeypatch.setattr(disks, "MIN_FREE_RATIO", 2.0)
    assert not disk.has_room()
    assert not spare.exists()
    assert not disk.has_room()  # there is nothing more to give up
