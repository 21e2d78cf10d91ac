"""The demo as a newcomer runs it: real processes, a real OpenTofu, and an end that says how it went."""

import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from terracrew.demo.machine import Machine
from terracrew.errors import Unavailable

pytestmark = [pytest.mark.engine, pytest.mark.feature("E1.commands"), pytest.mark.timeout(180)]
SECOND_RUN = 30.0


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


@pytest.mark.feature("J2.transitions", "J3.order", "J3.steps", "J8.same", "J5.git")
def test_each_sample_ends_as_it_should_and_a_second_run_is_quick(tmp_path: Path) -> None:
    first = subprocess.run(command(tmp_path / "demo", "--exit"), capture_output=True, text=True, timeout=120)
    assert first.returncode == 0, first.stdout + first.stderr
    for words in (
        "Payment records must be kept for 7 years, not 2.",  # the engine's own words, not ours
        "Apply complete! Resources: 5 added, 0 changed, 0 destroyed.",
        "password = <sensitive>",
        "all 30 tables are copied",
        "tag v1.1.0, commit",
        "10.20.2.0/24 may use port 443",
        "the ledger is backed up, encrypted with the key ***",
    ):
        assert words in (tmp_path / "demo" / "jobs.log").read_text()
    assert re.search(r"payments/broken .* FAILED +✓", first.stdout)
    for module in ("platform/network", "platform/firewall", "platform/chatty", "payments/ledger"):
        assert re.search(rf"{module} .* SUCCEEDED +✓", first.stdout)
    assert re.search(r"payments/gateway .* AWAITING_APPROVAL +✓", first.stdout)
    # 350 lines of log pushed the table off the screen.
    assert len(first.stdout.splitlines()) <= 24, first.stdout
    assert max(map(len, first.stdout.splitlines())) <= 120 + len(str(tmp_path)), first.stdout
    started = time.monotonic()
    second = subprocess.run(command(tmp_path / "demo", "--exit"), capture_output=True, text=True, timeout=120)
    took = time.monotonic() - started
    assert second.returncode == 0, second.stdout + second.stderr
    said = (tmp_path / "demo" / "jobs.log").read_text()
    assert "No changes." in said
    assert "has moved" not in said, "every demo makes the same commits"
    assert took < SECOND_RUN


def test_without_git_it_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        command(tmp_path / "demo", "--exit"), env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 8
    assert "there is no program `git` on PATH" in done.stderr
    assert "apt-get install git" in done.stderr


def test_a_server_that_took_the_port_meanwhile_is_not_taken_for_the_own_one(tmp_path: Path) -> None:
    """Two demos that started at once found the same port free; the second used the first one's server."""

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/readyz" else 401)
            self.end_headers()

    machine = Machine(directory=tmp_path / "demo")
    with ThreadingHTTPServer(("127.0.0.1", int(machine.url.rpartition(":")[2])), Ready) as stranger:
        Thread(target=stranger.serve_forever, daemon=True).start()
        try:
            with pytest.raises(Unavailable, match="ended before it was ready"):
                machine.start()
        finally:
            machine.stop()
            stranger.shutdown()


def let_in(link: str) -> None:
    """The link of the demo asked for a password of ten characters, for something that is thrown away."""
    with httpx.Client(follow_redirects=True) as browser:
        page = browser.get(link)
        assert "data-enter" in page.text
        origin = {"Origin": link.partition("/login")[0]}
        entered = browser.post(link, data={"enter": "true", "next": "/dashboard/jobs"}, headers=origin)
        assert entered.url.path == "/dashboard/jobs"
        assert "payments/gateway" in entered.text
        assert browser.post(link, data={"enter": "true"}, headers=origin).status_code == 410, "it works once"


def test_it_serves_until_ctrl_c(serving: "subprocess.Popen[str]") -> None:
    assert serving.stdout is not None
    said = ""
    for line in serving.stdout:
        said += line
        if line.startswith("to stop"):
            break
    address = re.search(r"^dashboard +(http://127\.0\.0\.1:(\d+)/login/link/\S+)", said, re.MULTILINE)
    assert address, said
    assert re.search(r"^to approve +\S+ job approve \d+$", said, re.MULTILINE)
    let_in(address[1])
    program = re.search(r"^command line +(\S+) job list", said, re.MULTILINE)
    assert program, said
    assert shutil.which(program[1]), "it can be typed as it is shown"
    serving.send_signal(signal.SIGINT)
    rest, _ = serving.communicate(timeout=60)
    assert serving.returncode == 0, rest
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", int(address[2]))) != 0
