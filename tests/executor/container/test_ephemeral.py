"""The first process of a container without a volume delivers what a dead executor left, and says how the attempt ended."""

import base64
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from terracrew.attempt import delivered, directories, exit_codes, files, ownership, process_record
from terracrew.executor.container import ends, ephemeral, reaper
from terracrew.executor.container.ends import ContainerEnd
from terracrew.executor.container.reaper import ContainerReaper
from terracrew.protocol.start import ExecutorStart
from tests.runner.conftest import granted

pytestmark = pytest.mark.feature("D6.watched")
URL = "http://127.0.0.1:1"
BOUND_SECONDS = 60


@pytest.fixture
def start(tmp_path: Path) -> ExecutorStart:
    directory = directories.create(tmp_path, granted(), URL)
    root = str(tmp_path)
    return ExecutorStart(URL, str(directory), root, root, root, {}, granted(), notes=["a note"])


class ScriptedExecutors:
    """Each call plays one executor: it signs, does what the script says, and returns its exit code."""

    def __init__(self, *codes: int, signs: bool = True) -> None:
        self._codes, self._signs = list(codes), signs
        self.starts: list[ExecutorStart] = []
        self.pauses: list[float] = []

    def run(self, start: ExecutorStart) -> int:
        self.starts.append(start)
        directory, code = Path(start.directory), self._codes.pop(0)
        if self._signs:
            process = process_record.of(os.getpid(), is_salvage=start.is_salvage)
            assert ownership.sign(directory, process)
        if code == exit_codes.DELIVERED:
            delivered.mark_done(directory, 7)
        if code == exit_codes.UNDELIVERED:
            delivered.mark_refused(directory, 5)
        return code


def _end(start: ExecutorStart, executors: ScriptedExecutors) -> ContainerEnd:
    return ephemeral.follow(start, executors.run, executors.pauses.append)


def test_an_executor_that_delivers_everything_is_the_only_one(start: ExecutorStart) -> None:
    end = _end(start, executors := ScriptedExecutors(0))
    assert (end.exit_code, end.done, len(executors.starts)) == (exit_codes.DELIVERED, "7", 1)


def test_what_a_dead_executor_left_is_delivered_in_the_same_container(start: ExecutorStart) -> None:
    end = _end(start, executors := ScriptedExecutors(-9, 0))
    assert (end.exit_code, end.executor, end.done) == (exit_codes.SALVAGED, -9, "7")
    assert [each.is_salvage for each in executors.starts] == [False, True]
    assert executors.starts[1].granted is None
    assert executors.starts[1].notes == []


def test_a_delivery_that_fails_is_tried_again_with_pauses_but_not_forever(start: ExecutorStart) -> None:
    end = _end(start, executors := ScriptedExecutors(-9, *([exit_codes.CRASHED] * ephemeral.MAX_SALVAGES)))
    assert end.exit_code == exit_codes.ABANDONED
    assert len(executors.starts) == 1 + ephemeral.MAX_SALVAGES
    assert len(executors.pauses) == ephemeral.MAX_SALVAGES - 1


def test_what_the_server_refused_is_not_sent_again(start: ExecutorStart) -> None:
    end = _end(start, executors := ScriptedExecutors(exit_codes.UNDELIVERED))
    assert (end.exit_code, end.refused, len(executors.starts)) == (exit_codes.UNDELIVERED, "5", 1)


def test_an_executor_that_has_not_signed_has_not_begun(start: ExecutorStart) -> None:
    end = _end(start, executors := ScriptedExecutors(exit_codes.CRASHED, signs=False))
    assert (end.exit_code, end.has_begun, len(executors.starts)) == (exit_codes.NOT_BEGUN, False, 1)


def test_a_container_that_is_started_twice_runs_its_attempt_once(start: ExecutorStart) -> None:
    assert ownership.sign(Path(start.directory), process_record.of(os.getpid()))
    end = _end(start, executors := ScriptedExecutors(0))
    assert [each.is_salvage for each in executors.starts] == [True]
    assert (end.exit_code, end.executor) == (exit_codes.SALVAGED, None)


def test_a_report_gives_the_runner_what_it_needs(start: ExecutorStart, tmp_path: Path) -> None:
    _end(start, ScriptedExecutors(-9, 0))
    (Path(start.directory) / files.LOG).write_text("x" * 10_000)
    path = tmp_path / "report"
    assert ends.report(ends.of(Path(start.directory), -9), path) == exit_codes.SALVAGED
    own = tmp_path / "own"
    own.mkdir()
    said = ends.decode(path.read_text())
    assert said
    said.write_into(own)
    assert delivered.is_done(own)
    assert delivered.last_event(own) == 7
    process = ownership.process_of(own)
    assert process
    assert process.is_salvage


def test_a_report_is_never_longer_than_a_place_keeps() -> None:
    end = ContainerEnd(3, '{"process":{}}', refused="9", last_line="\N{SNOWMAN}" * ends.MAX_REPORT_BYTES)
    assert len(ends.encode(end)) <= ends.MAX_REPORT_BYTES


@pytest.mark.parametrize("said", ["", "Traceback", '{"pid": 4}', "[]"])
def test_something_else_than_a_report_says_nothing(said: str) -> None:
    assert ends.decode(said) is None


@pytest.mark.parametrize(
    ("code", "has_begun"),
    [(0, True), (3, True), (76, True), (77, True), (78, False), (1, False), (127, False), (137, None), (143, None)],
)
def test_an_exit_code_alone_says_whether_the_executor_has_begun(code: int, has_begun: bool | None) -> None:
    end = ends.of_exit_code(code)
    assert (end and end.has_begun) == has_begun
    if end and code not in (1, 127):
        assert end.exit_code == (exit_codes.ABANDONED if code == exit_codes.SALVAGED else code)


def _first_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "terracrew.executor.container", "ephemeral", *arguments]
    env = {**os.environ, **variables}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=BOUND_SECONDS, check=False)


def test_without_a_start_nothing_begins_and_the_report_says_why(tmp_path: Path) -> None:
    report = tmp_path / "report"
    done = _first_process("--start", f"file:{tmp_path}/start-of-another-pod.json", "--report", str(report))
    assert done.returncode == exit_codes.NOT_BEGUN
    said = ends.decode(report.read_text())
    assert said
    assert not said.has_begun
    assert "start-of-another-pod.json" in said.last_line


@pytest.mark.parametrize("value", ["%", base64.b64encode(b'{"secret": "s3cret"}').decode()])
def test_a_damaged_start_in_a_variable_is_not_printed(value: str) -> None:
    done = _first_process("--start", "variable:START", START=value)
    assert done.returncode == exit_codes.NOT_BEGUN
    assert value not in done.stdout + done.stderr
    assert "s3cret" not in done.stdout + done.stderr


def _in_child(work: Callable[[], int]) -> int:
    """Run this in a process that reaps as a first process does."""
    pid = os.fork()
    if pid == 0:
        os.setsid()
        code = 99
        try:
            reaper.unblock()
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.parametrize(("passes_on", "expected"), [(True, 15), (False, 0)])
def test_a_request_to_end_reaches_an_executor_but_not_a_delivery(passes_on: bool, expected: int) -> None:
    def work() -> int:
        signal.pthread_sigmask(signal.SIG_BLOCK, reaper.WAITED_FOR)
        first = os.getpid()
        executor = os.fork()
        if executor == 0:
            reaper.unblock()
            os.kill(first, signal.SIGTERM)
            signal.sigtimedwait({signal.SIGUSR1}, 1.0 if not passes_on else BOUND_SECONDS)
            os._exit(0)
        reaping = ContainerReaper(executor, (0.1, 0.1), passes_on=passes_on, send_to_all=lambda _: None)
        code = abs(reaping.reap())
        return code if reaping.is_stopping == passes_on else exit_codes.CRASHED

    assert _in_child(work) == expected
