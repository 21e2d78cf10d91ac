"""The kernel says that a file has changed."""

import errno
import os
import select
from pathlib import Path

import pytest

from terracrew.system import file_changes
from terracrew.system.file_changes import FileChanges


def _has_changed(changes: FileChanges, within: float) -> bool:
    return bool(select.select([changes.fileno()], [], [], within)[0])


def test_each_change_is_seen_until_it_is_cleared(tmp_path: Path) -> None:
    file = tmp_path / "output"
    file.touch()
    with FileChanges(file, file_changes.IN_MODIFY) as changes:
        assert not _has_changed(changes, 0)
        for text in ("one", "two"):
            file.write_text(text)
            assert _has_changed(changes, 30)
            changes.clear()
            assert not _has_changed(changes, 0)
        changes.clear()


def test_many_changes_are_cleared_at_once(tmp_path: Path) -> None:
    with FileChanges(tmp_path, file_changes.IN_CREATE) as changes:
        for number in range(8000):
            (tmp_path / f"{number:0200}").touch()
        changes.clear()
        assert not _has_changed(changes, 0)


def test_a_file_that_is_missing_is_an_error_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match="No such file") as caught:
        FileChanges(tmp_path / "missing", file_changes.IN_MODIFY)
    assert caught.value.errno == errno.ENOENT
    assert len(os.listdir("/proc/self/fd")) == len(before)
