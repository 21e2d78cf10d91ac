"""The demo as a newcomer runs it: real processes, a real OpenTofu, and an end that says how it went."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.engine, pytest.mark.feature("E1"), pytest.mark.timeout(180)]
SECOND_RUN = 15.0


def command(directory: Path, *options: str) -> list[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return [sys.executable, "-m", "terracrew.cli", "demo", "--data-dir", str(directory), "--port", str(port), *options]


@pytest.fixture
def serving(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command(tmp_path / "demo"), stdout=subprocess.PIPE, text=True, bufsize=1)
    yield process
    process.terminate()
    process.communicate(timeout=60)


@pytest.mark.feature("J2", "J3", "J8", "L4")
def test_each_sample_ends_as_it_should_and_a_second_run_is_quick(tmp_path: Path) -> None:
    first = subprocess.run(command(tmp_path / "demo", "--exit"), capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stdout + first.stderr
    for words in (
        "Payment records must be kept for 7 years, not 2.",  # the engine's own words, not ours
        "Apply complete! Resources: 5 added, 0 changed, 0 destroyed.",
        "password = <sensitive>",
        "all 30 tables are copied",
    ):
        assert words in first.stdout
    assert re.search(r"payments/broken .* FAILED +FAILED +✓", first.stdout)
    assert re.search(r"platform/chatty .* SUCCEEDED +SUCCEEDED +✓", first.stdout)
    assert re.search(r"payments/gateway .* AWAITING_APPROVAL +AWAITING_APPROVAL +✓", first.stdout)
    started = time.monotonic()
    second = subprocess.run(command(tmp_path / "demo", "--exit"), capture_output=True, text=True, timeout=120)
    took = time.monotonic() - started
    assert second.returncode == 0, second.stdout + second.stderr
    assert "No changes." in second.stdout
    assert took < SECOND_RUN


def test_it_serves_until_ctrl_c(serving: "subprocess.Popen[str]") -> None:
    assert serving.stdout is not None
    said = ""
    for line in serving.stdout:
        said += line
        if line.startswith("the end"):
            break
    address = re.search(r"^dashboard +(http://127\.0\.0\.1:(\d+))/dashboard", said, re.MULTILINE)
    assert address, said
    assert f"{address[1]}/login/link/" in said
    assert re.search(rf"^to approve +{re.escape(address[1])}/dashboard/jobs/job_", said, re.MULTILINE)
    program = re.search(r"^command line +(\S+) job list", said, re.MULTILINE)
    assert program, said
    assert shutil.which(program[1]), "it can be typed as it is shown"
    serving.send_signal(signal.SIGINT)
    rest, _ = serving.communicate(timeout=60)
    assert serving.returncode == 0, rest
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(address[2]))) != 0
