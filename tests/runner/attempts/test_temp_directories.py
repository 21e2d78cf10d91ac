"""The scratch space of an attempt: used with the default directories, and gone with the attempt."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew import ids
from terracrew.protocol.messages import AttemptRef
from terracrew.runner.attempts.workspaces import MAX_PATH_BYTES, TempDirectories

pytestmark = pytest.mark.feature("J14.scratch")


@pytest.fixture
def root() -> Iterator[Path]:
    """A shorter one than pytest's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "t"


def ref() -> AttemptRef:
    return AttemptRef(ids.new("job"), 12)


@pytest.mark.parametrize(
    "default", ["/home/ops/.terracrew/runner/.temp", "/home/somebody.longname/.terracrew/server/runner/.temp"]
)
def test_the_default_directories_leave_room_for_the_sockets_of_plug_ins(root: Path, default: str) -> None:
    """With the default paths the directory was never used, and every job warned about it."""
    directory = TempDirectories(str(root), "one").make(ref())["TMPDIR"]
    assert len(default + directory.removeprefix(str(root))) <= MAX_PATH_BYTES


def test_each_attempt_has_its_own_directory_which_is_removed_with_it(root: Path) -> None:
    scratch, one, other = TempDirectories(str(root), "one"), ref(), ref()
    first, second = [Path(scratch.make(each)["TMPDIR"]) for each in (one, other)]
    assert first != second
    assert first.stat().st_mode & 0o777 == 0o700
    (first / "left").write_text("x")
    scratch.remove(one)
    assert (first.exists(), second.exists()) == (False, True)


def test_a_new_process_removes_what_no_attempt_needs_and_nothing_of_others(root: Path) -> None:
    """A runner that was given /tmp removed everything in it, and the plug-in sockets of another runner's applies."""
    one, other = ref(), ref()
    kept = Path(TempDirectories(str(root), "one").make(one)["TMPDIR"])
    ended = Path(TempDirectories(str(root), "one").make(ref())["TMPDIR"])
    of_another_runner = Path(TempDirectories(str(root), "two").make(other)["TMPDIR"])
    of_somebody = root / "somebody"
    of_somebody.mkdir()
    TempDirectories(str(root), "one").sweep([one])
    assert (kept.exists(), ended.exists()) == (True, False)
    assert (of_another_runner.exists(), of_somebody.exists()) == (True, True)


def test_a_root_that_is_too_long_for_sockets_is_replaced_by_a_short_one_of_this_user_alone(tmp_path: Path) -> None:
    """Engines used the system's temporary directory then, which every job of every runner can read and write."""
    one = ref()
    scratch = TempDirectories(str(tmp_path / ("x" * 100)), str(tmp_path))
    directory = Path(scratch.make(one)["TMPDIR"])
    assert len(str(directory)) <= MAX_PATH_BYTES
    assert directory.stat().st_mode & 0o777 == 0o700
    assert directory.parent.parent.stat().st_mode & 0o777 == 0o700
    scratch.remove(one)
    assert not directory.exists()
    directory.parent.rmdir()
