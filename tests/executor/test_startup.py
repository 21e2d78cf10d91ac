"""An executor that was started by its command line takes its attempt's directory as a forked one does."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import directories, exit_codes, files, ownership, process_record
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.processes import members
from tests.runner.conftest import granted

NOBODY_LISTENS = "http://127.0.0.1:1"
BOUND_SECONDS = 60


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return directories.create(tmp_path, granted(), NOBODY_LISTENS)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def _start(directory: Path, *, is_salvage: bool) -> subprocess.Popen[bytes]:
    root = str(directory.parent)
    start = ExecutorStart(NOBODY_LISTENS, str(directory), root, root, root, {}, is_salvage=is_salvage)
    process = subprocess.Popen([sys.executable, "-m", "terracrew.executor"], stdin=subprocess.PIPE, cwd="/")
    assert process.stdin
    with process.stdin:
        process.stdin.write(msgspec.json.encode(start))
    return process


def test_it_leads_a_session_and_locks_and_signs_its_directory(
    directory: Path, started: list[subprocess.Popen[bytes]]
) -> None:
    """A delivery whose server does not answer stays; the dispatcher did nothing but start it."""
    started.append(process := _start(directory, is_salvage=True))
    deadline = time.monotonic() + BOUND_SECONDS
    while (signed := ownership.process_of(directory)) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert signed == process_record.of(process.pid, is_salvage=True)
    assert os.getsid(process.pid) == process.pid
    holder = members.holder_of(directory / files.LOCK)
    assert holder is not None
    assert holder.pid == process.pid
    second = _start(directory, is_salvage=True)
    assert second.wait(BOUND_SECONDS) == exit_codes.IN_USE


def test_an_attempt_that_was_handed_back_is_not_run(directory: Path) -> None:
    assert ownership.forbid_start(directory)
    assert _start(directory, is_salvage=False).wait(BOUND_SECONDS) == exit_codes.IN_USE
    assert not (directory / files.LOG).exists()


def test_its_traceback_is_in_its_own_log(directory: Path, capfd: pytest.CaptureFixture[str]) -> None:
    process = _start(directory, is_salvage=False)
    assert process.wait(BOUND_SECONDS) == exit_codes.CRASHED
    assert "the executor was started without a job" in (directory / files.LOG).read_text()
    assert "Traceback" not in capfd.readouterr().err
    signed = ownership.process_of(directory)
    assert signed is not None
    assert signed.pid == process.pid
