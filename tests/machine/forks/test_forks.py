"""A command that was forked behaves like one that was started: output, exit codes, signals, environment, session."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine.forks import process

ENV = {name: value for name, value in os.environ.items() if not name.startswith("TERRACREW_")}
# A module that the tests below run instead of the command line.
PRINTS = """
import os, sys, uuid
from terracrew import ids
print(os.getcwd(), os.environ.get("MARK"), sys.argv[1:], __name__)
print(ids.new("job"), os.urandom(8).hex(), uuid.uuid4())
print(sorted(os.listdir("/proc/self/fd"), key=int))
print("to stderr", file=sys.stderr)
sys.exit(7)
"""
WAITS = """
import pathlib, signal, time
pathlib.Path("ready").touch()
time.sleep(600)
"""


@pytest.fixture
def module(tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Write the module of the test into the folder in which it runs. The folder is the first entry of `sys.path`."""
    (tmp_path / "forked_module.py").write_text(request.param)
    return "forked_module"


def _start(folder: Path, module: str, *, is_real: bool, **env: str) -> "process.Forked | subprocess.Popen[bytes]":
    with (folder / "out").open("ab") as out, (folder / "err").open("ab") as err:
        return process.start(
            ["a", "b c"],
            ENV | env,
            stdout=out.fileno(),
            stderr=err.fileno(),
            module=module,
            cwd=folder,
            is_real=is_real,
        )


def test_a_command_says_the_same_with_the_same_exit_code_as_a_fork() -> None:
    for arguments in (["--version"], ["job", "--no-such-option"], ["server", "schema"]):
        real = subprocess.run(
            [sys.executable, "-m", "terracrew.cli", *arguments], env=ENV, capture_output=True, text=True
        )
        assert process.run(arguments, ENV) == (real.returncode, real.stdout, real.stderr)


@pytest.mark.parametrize("module", [PRINTS], indirect=True)
def test_a_fork_has_its_own_folder_environment_arguments_and_random_numbers(tmp_path: Path, module: str) -> None:
    forks = [_start(tmp_path, module, is_real=False, MARK="x") for _ in range(2)]
    assert [type(fork) for fork in forks] == [process.Forked] * 2
    assert [fork.wait(60) for fork in forks] == [7, 7]
    lines = (tmp_path / "out").read_text().splitlines()
    assert lines.count(f"{tmp_path} x ['a', 'b c'] __main__") == 2
    # The standard descriptors, and the one that lists them: nothing of the server or of another fork.
    assert lines.count("['0', '1', '2', '3']") == 2
    assert len(set(lines)) == 4, "ids and random numbers differ"
    assert (tmp_path / "err").read_text() == "to stderr\n" * 2


@pytest.mark.parametrize("module", [WAITS], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_real", [True, False], ids=["real", "fork"])
def test_a_signal_ends_it_as_it_ends_a_process(tmp_path: Path, module: str, number: int, is_real: bool) -> None:
    started = _start(tmp_path, module, is_real=is_real)
    while not (tmp_path / "ready").exists():
        assert started.poll() is None, (tmp_path / "err").read_text()
    assert os.getsid(started.pid) == started.pid
    with pytest.raises(subprocess.TimeoutExpired):
        started.wait(0.01)
    started.send_signal(number)
    assert started.wait(60) == -number
    assert started.poll() == -number
    started.send_signal(number)  # to one that has ended: nothing happens


def test_what_the_interpreter_reads_when_it_starts_makes_a_new_process() -> None:
    assert process.can_fork(ENV | {"HOME": "/tmp"})
    assert not process.can_fork(ENV | {"PYTHONPATH": "/tmp"})
    assert not process.can_fork(ENV | {"LD_PRELOAD": "libfaketime.so.1"})
    assert not process.can_fork(ENV | {"TZ": "Asia/Tokyo"})
