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
from terracrew.executor.container import arrival, paths, reaper
signal.pthread_sigmask(signal.SIG_BLOCK, reaper.WAITED_FOR)
exec(sys.argv[3])
arrival.START, arrival.COMPLETE = Path(sys.argv[1], "start.json"), Path(sys.argv[1], "start.complete")
print("waiting", flush=True)
print(arrival.wait(float(sys.argv[2])), flush=True)
"""


def waiter(folder: Path, seconds: float = 60.0, before: str = "") -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", _WAITER, str(folder), str(seconds), before]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    return process


def test_nothing_begins_before_the_upload_is_complete(tmp_path: Path) -> None:
    with waiter(tmp_path) as process:
        (tmp_path / "start.json").write_bytes(b"{half")
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        _put_start(tmp_path)
        assert process.communicate(timeout=30)[0] == "b'{whole}'\n"
    assert os.listdir(tmp_path) == []


def test_the_last_file_stays_until_the_daemon_has_done_everything_with_it(tmp_path: Path) -> None:
    """An upload failed because the container removed the file before the daemon had given it its owner and its time."""
    with waiter(tmp_path, before="arrival._UNTIMED_SECONDS = 3600.0; arrival._LOOK_SECONDS = 3600.0") as process:
        (tmp_path / "start.json").write_bytes(b"{whole}")
        (tmp_path / "start.complete").touch()
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        os.utime(tmp_path / "start.complete", (0, 0))
        assert process.communicate(timeout=30)[0] == "b'{whole}'\n"
    assert os.listdir(tmp_path) == []


def test_a_daemon_that_sets_no_times_is_understood(tmp_path: Path) -> None:
    with waiter(tmp_path, before="arrival._UNTIMED_SECONDS = 0.2; arrival._LOOK_SECONDS = 0.1") as process:
        (tmp_path / "start.json").write_bytes(b"{whole}")
        (tmp_path / "start.complete").touch()
        assert process.communicate(timeout=30)[0] == "b'{whole}'\n"


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


def _put_start(folder: Path) -> None:
    (folder / "start.json").write_bytes(b"{whole}")
    (folder / "start.complete").touch()
    os.utime(folder / "start.complete", (0, 0))


def _switches(process: "subprocess.Popen[str]") -> int:
    """How often the process has gone to sleep."""
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt_switches")).split()[1])


def test_a_container_that_waits_does_nothing_and_is_woken_by_its_job(tmp_path: Path) -> None:
    """It looked 250 times a second, for as long as no job came."""
    with waiter(tmp_path, before="arrival._LOOK_SECONDS = 3600.0") as process:
        time.sleep(0.3)
        before = _switches(process)
        time.sleep(0.5)
        assert _switches(process) - before <= 1
        _put_start(tmp_path)
        assert process.communicate(timeout=30)[0] == "b'{whole}'\n"


def test_a_kernel_that_says_nothing_of_new_files_is_not_waited_for(tmp_path: Path) -> None:
    refuse = "arrival._LOOK_SECONDS, arrival.fcntl.F_NOTIFY = 3600.0, -1"
    with waiter(tmp_path, before=refuse) as process:
        time.sleep(0.2)
        _put_start(tmp_path)
        assert process.communicate(timeout=30)[0] == "b'{whole}'\n"


def test_new_files_do_not_end_the_process_afterwards(tmp_path: Path) -> None:
    """A notice that nobody waits for ends a process."""
    after = "import atexit; atexit.register(lambda: (signal.pthread_sigmask(signal.SIG_SETMASK, ()), print('alive')))"
    with waiter(tmp_path, before=after) as process:
        time.sleep(0.2)
        for number in range(100):
            (tmp_path / str(number)).touch()
        _put_start(tmp_path)
        (tmp_path / "later").touch()
        assert process.communicate(timeout=30)[0] == "b'{whole}'\nalive\n"
    assert process.returncode == 0


_REAPER = """
import os
from terracrew.executor.container import reaper
reaper.TIDY_SECONDS = 0.05
executor = os.fork()
if executor == 0:
    sys.stdin.read()
    os._exit(0)
print(reaper.ContainerReaper(executor, (1.0, 1.0), tidy=arrival.remove_repeated).reap(), flush=True)
"""


def test_a_start_that_is_uploaded_again_does_not_stay_on_the_volume(tmp_path: Path) -> None:
    """Symptom: the daemon's answer to an upload was lost, and its repetition left the start with all credentials on the volume."""
    command = [sys.executable, "-c", _WAITER + _REAPER, str(tmp_path), "60", ""]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        _put_start(tmp_path)
        assert process.stdout.readline() == "b'{whole}'\n"
        (tmp_path / "start.json").write_bytes(b"{half")
        time.sleep(0.3)
        assert os.listdir(tmp_path) == ["start.json"], "removing it before it is complete lets the upload fail"
        _put_start(tmp_path)
        until = time.monotonic() + 30
        while os.listdir(tmp_path) and time.monotonic() < until:
            time.sleep(0.01)
        assert os.listdir(tmp_path) == []
        assert process.communicate("", timeout=30)[0] == "0\n"
