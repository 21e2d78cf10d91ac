"""The first process of a container waits for the job that the runner uploads after the start."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

_WAITER = """
import signal, sys
from pathlib import Path
from terracrew.executor.container import arrival, paths, signals
signal.pthread_sigmask(signal.SIG_BLOCK, signals.WAITED_FOR)
arrival.START, arrival.COMPLETE = Path(sys.argv[1], "start.json"), Path(sys.argv[1], "start.complete")
print("waiting", flush=True)
print(arrival.wait(float(sys.argv[2])), flush=True)
"""


def waiter(folder: Path, seconds: float = 60.0) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _WAITER, str(folder), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def test_nothing_begins_before_the_upload_is_complete(tmp_path: Path) -> None:
    with waiter(tmp_path) as process:
        (tmp_path / "start.json").write_bytes(b"{half")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        (tmp_path / "start.json").write_bytes(b"{whole}")
        (tmp_path / "start.complete").touch()
        assert process.communicate(timeout=30)[0] == "b'{whole}'\n"
    assert os.listdir(tmp_path) == []


def test_a_job_that_never_arrives_is_not_waited_for_without_end(tmp_path: Path) -> None:
    with waiter(tmp_path, 0.1) as process:
        said = process.communicate(timeout=30)[0]
    assert said == "its job did not arrive within 0 seconds\nNone\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_container_that_is_stopped_before_its_job_arrives_ends(tmp_path: Path, number: signal.Signals) -> None:
    with waiter(tmp_path) as process:
        began = time.monotonic()
        process.send_signal(number)
        assert process.communicate(timeout=30)[0].startswith("it was told to end before its job arrived\n")
    assert time.monotonic() - began < 30
