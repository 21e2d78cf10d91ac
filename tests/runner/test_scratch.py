"""The scratch space of an attempt: used with the default directories, and gone with the attempt."""

import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from terracrew import ids
from terracrew.protocol.messages import AttemptRef
from terracrew.runner.scratch import MAX_PATH_BYTES, Scratch

pytestmark = pytest.mark.feature("J14")


@pytest.fixture
def root() -> Iterator[Path]:
    """A shorter one than pytest's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder) / "t"


def ref() -> AttemptRef:
    return AttemptRef(ids.new("job"), 12)


@pytest.mark.parametrize(
    "default", ["/root/.terracrew/runner/.temp", "/home/somebody.longname/.terracrew/server/runner/.temp"]
)
def test_the_default_directories_leave_room_for_the_sockets_of_plug_ins(root: Path, default: str) -> None:
    """With the default paths the directory was never used, and every job warned about it."""
    directory = Scratch(str(root)).make(ref())["TMPDIR"]
    assert len(default + directory.removeprefix(str(root))) <= MAX_PATH_BYTES


def test_each_attempt_has_its_own_directory_which_is_removed_with_it(root: Path) -> None:
    scratch, one, other = Scratch(str(root)), ref(), ref()
    first, second = [Path(scratch.make(each)["TMPDIR"]) for each in (one, other)]
    assert first != second
    assert first.stat().st_mode & 0o777 == 0o700
    (first / "left").write_text("x")
    scratch.remove(one)
    assert (first.exists(), second.exists()) == (False, True)


def test_a_new_process_removes_what_no_attempt_needs(root: Path) -> None:
    one, older = ref(), ref()
    kept = Path(Scratch(str(root)).make(one)["TMPDIR"])
    ended = Path(Scratch(str(root)).make(ref())["TMPDIR"])
    by_earlier_version = root / f"{older.job_id}.{older.attempt}"
    by_earlier_version.mkdir()
    Scratch(str(root)).sweep([one, older])
    assert (kept.exists(), by_earlier_version.exists(), ended.exists()) == (True, True, False)


def test_a_directory_that_is_too_long_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    scratch = Scratch(str(tmp_path / ("x" * 100)))
    with caplog.at_level(logging.WARNING):
        assert [scratch.make(ref()) for _ in range(3)] == [{}, {}, {}]
    assert len(caplog.records) == 1
