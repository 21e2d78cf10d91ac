"""The database or a server goes away under a working system of real processes, and nothing is lost."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from terracrew.errors import Unavailable
from tests.e2e import modules
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.system import eventually
from tests.machine.needs import need
from tests.machine.postgres_server import OwnServer, missing
from tests.thoroughness import thorough

pytestmark = [pytest.mark.postgres, pytest.mark.engine]
AWAY_SECONDS = float(os.environ.get("TERRACREW_TEST_AWAY_SECONDS", "15"))
"""Longer than it takes to be lost by a closed connection; to be lost by silence takes a minute, for who has the time."""
RESUMED_SECONDS = 5.0


@pytest.fixture(scope="module")
def postgres() -> Iterator[OwnServer]:
    need(missing())
    with OwnServer.making() as server:
        yield server


@pytest.fixture
def two(tmp_path: Path, postgres: OwnServer) -> Iterator[Fleet]:
    """Two servers behind a balancer."""
    with postgres.unmigrated_database() as url, fleet(tmp_path, url, 2) as found:
        yield found


@pytest.fixture
def one(tmp_path: Path, postgres: OwnServer) -> Iterator[Fleet]:
    with postgres.unmigrated_database() as url, fleet(tmp_path, url, 1) as found:
        try:
            yield found
        finally:
            postgres.start_again()  # a test that failed while it was away takes no other test with it


class Follower:
    """`terracrew job logs -f` or another command that waits, as a person has it open."""

    def __init__(self, system: Fleet, job_id: str, url: str, *command: str) -> None:
        env = system.env | {"TERRACREW_URL": url, "TERRACREW_TOKEN": (system.data / "admin.token").read_text()}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "terracrew.cli", "job", *(command or ("logs", "-f")), job_id],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
        )
        self.out = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while piece := os.read(self.process.stdout.fileno(), 1 << 16):
            self.out += piece

    def wait(self) -> int:
        code = self.process.wait(60)
        self._thread.join(10)
        return code


def numbers(log: str) -> list[int]:
    """The numbered lines of a chatty job, as the engine printed them."""
    return [int(found) for found in re.findall(r"\(local-exec\):.*?line-(\d+)-of-it", log)]


def ask(url: str, **headers: str) -> tuple[float, Any]:
    began = time.monotonic()
    answer = urllib3.request("GET", url, headers=headers, retries=False, timeout=20)
    return time.monotonic() - began, answer


def chatty(system: Fleet, count: int, lines: int, pause: float) -> list[str]:
    jobs: list[str] = []
    for index in range(count):
        witness = system.directory / f"witness-{index}"
        system.module(f"chatty-{index}", modules.chatty_apply(lines, str(witness), pause))
        jobs.append(system.run(f"chatty-{index}", "APPLY"))
    for job in jobs:
        eventually(lambda job=job: len(numbers(system.log(job))) > 3, what="the first lines")
    return jobs


def assert_complete(system: Fleet, jobs: list[str], lines: int) -> None:
    for index, job in enumerate(jobs):
        ended = system.wait(job)
        assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), ended
        assert numbers(system.log(job)) == list(range(1, lines + 1)), "nothing lost, nothing twice, in order"
        assert len((system.directory / f"witness-{index}").read_text().split()) == lines
        assert len(system.state(f"chatty-{index}")["resources"]) == 3


def _usual_seconds(system: Fleet) -> float:
    """How long a quick job takes while everything is there. On a busy machine, everything after the outage takes longer, too."""
    eventually(lambda: [each["status"] for each in system.api.list("/runners")] == ["ONLINE"], what="the runner")
    began = time.monotonic()
    system.module("usual", modules.quick())
    assert system.wait(system.run("usual"))["status"] == "SUCCEEDED"
    return time.monotonic() - began


@thorough
@pytest.mark.feature("O1.continues", "O6.database")
@pytest.mark.parametrize("how", [signal.SIGQUIT, signal.SIGINT], ids=["immediate", "fast"])
def test_a_database_that_is_away_under_running_jobs_costs_nothing_but_the_time(
    one: Fleet, postgres: OwnServer, how: signal.Signals
) -> None:
    lines = int(10 * AWAY_SECONDS)
    runner = one.start_runner(one.register_runner())
    usual = _usual_seconds(one)
    jobs = chatty(one, 3, lines, 0.1)
    follower = Follower(one, jobs[0], one.url)
    waiting = Follower(one, jobs[1], one.url, "wait")
    token = (one.data / "admin.token").read_text()
    eventually(lambda: b"line-5-of-it" in follower.out, what="a line on the screen")

    postgres.stop(how)
    began = time.monotonic()
    while time.monotonic() - began < AWAY_SECONDS:
        took, answer = ask(f"{one.url}/api/v1/jobs/{jobs[0]}", Authorization=f"Bearer {token}")
        assert (answer.status, answer.json()["code"]) == (503, "unavailable"), answer.data
        assert answer.headers["Content-Type"] == "application/problem+json"
        assert 1 <= int(answer.headers["Retry-After"]) <= 5
        assert took < 2 + usual
        assert "127.0.0.1" not in answer.json()["detail"], "where the database is, is nobody's business"
        assert ask(f"{one.url}/healthz")[1].status == 200
        assert ask(f"{one.url}/readyz")[1].status == 503
        with pytest.raises(Unavailable):
            one.api.post("/modules/chatty-0/jobs", {"type": "PLAN"})
        _, page = ask(f"{one.url}/dashboard/runners", Cookie="terracrew_session=somebody")
        assert (page.status, page.headers["Content-Type"]) == (503, "text/html; charset=utf-8"), page.headers
        assert "the database does not answer" in page.data.decode().lower()
        assert page.headers["Refresh"] == "3", "and it asks again by itself"
        assert follower.process.poll() is None
        assert waiting.process.poll() is None
    printed = [len((one.directory / f"witness-{index}").read_text().split()) for index in range(len(jobs))]
    seen = follower.out.count(b"-of-it")
    postgres.start()
    back = time.monotonic()

    # What was printed meanwhile is there, what is printed now arrives, and new jobs start.
    for job, count in zip(jobs, printed, strict=True):
        eventually(
            lambda job=job, count=count: len(numbers(one.log(job))) >= count,
            within=RESUMED_SECONDS + usual,
            what="logs",
        )
    eventually(lambda: follower.out.count(b"-of-it") > seen, within=RESUMED_SECONDS + usual, what="the screen")
    one.module("new", modules.quick())
    new = one.run("new")
    assert one.wait(new)["status"] == "SUCCEEDED"
    started = time.monotonic() - back
    assert started < RESUMED_SECONDS + 3 + 2 * usual, f"a job that was queued after it had ended after {started:.1f} s"
    assert_complete(one, jobs, lines)
    assert waiting.wait() == 0
    assert follower.wait() == 0
    assert numbers(re.sub(r"\x1b\[[0-9;]*m", "", follower.out.decode())) == list(range(1, lines + 1))
    assert runner.log.read_text().count("connected to") == 1, "the runner's connection was kept"


@pytest.mark.feature("O1.continues", "O6.stampede")
def test_one_of_two_servers_is_killed_and_the_fleet_moves_over(two: Fleet) -> None:
    lines = 120
    for name in ("a", "b", "c", "d"):
        two.start_runner(two.register_runner(name, max_jobs=2), instance=name)
    eventually(lambda: len([r for r in two.api.list("/runners") if r["status"] == "ONLINE"]) == 4, what="the crew")
    jobs = chatty(two, 6, lines, 0.1)
    survivor = f"http://127.0.0.1:{two.ports[1]}"
    followers = [Follower(two, job, survivor) for job in jobs]
    two.servers[0].kill(signal.SIGKILL)
    printed = [len((two.directory / f"witness-{index}").read_text().split()) for index in range(len(jobs))]
    for job, count in zip(jobs, printed, strict=True):
        eventually(
            lambda job=job, count=count: len(numbers(two.log(job))) > count, within=60, what="lines of after the kill"
        )
    eventually(
        lambda: len([r for r in two.api.list("/runners") if r["status"] == "ONLINE"]) == 4,
        within=60,
        what="the whole crew on the other server",
    )
    two.module("new", modules.quick())
    assert two.wait(two.run("new"))["status"] == "SUCCEEDED"
    assert_complete(two, jobs, lines)
    for follower in followers:
        assert follower.wait() == 0
        assert numbers(re.sub(r"\x1b\[[0-9;]*m", "", follower.out.decode())) == list(range(1, lines + 1))
