"""Servers, runners and executors of different versions, each from a wheel of its own, run real jobs together."""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import psycopg
import pytest
import urllib3

from terracrew import __version__
from terracrew.errors import Incompatible, TerracrewError, Unavailable
from terracrew.protocol import version
from tests.e2e import modules
from tests.e2e.constants import ended, environment
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.other_versions import NEXT_MIGRATION, adding, changing, environment_of, speaking
from tests.e2e.simulated_runner import hub, runner_hello, runner_token
from tests.e2e.system import System, eventually
from tests.thoroughness import IS_THOROUGH, thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
NEWEST = version.NEWEST_VERSION
LOAD_SECONDS = float(os.environ.get("TERRACREW_TEST_UPGRADE_SECONDS") or (15 if IS_THOROUGH else 0))
"""How long the load goes on after each step of an upgrade. Without it, until a few more jobs have ended."""


def before() -> dict[str, str]:
    return environment_of("0.0.9", speaking(NEWEST - 1, NEWEST))


def after() -> dict[str, str]:
    return environment_of("0.2.0", speaking(NEWEST, NEWEST + 1) | adding())


def after_that() -> dict[str, str]:
    return environment_of("0.3.0", changing())


@pytest.fixture
def two(tmp_path: Path, postgres_url: str) -> Iterator[Fleet]:
    with fleet(tmp_path, postgres_url, 2) as found:
        yield found


def wait_for_version(system: System, wanted: str, instance: str = "one", runner: str = "crew") -> None:
    def is_here() -> bool:
        instances: list[dict[str, Any]] = system.api.get(f"/runners/{runner}")["instances"]
        return any(
            (each["name"], each["version"], each["status"]) == (instance, wanted, "ONLINE") for each in instances
        )

    eventually(is_here, what=f"{instance} of {wanted}")


def agreed(system: System, newest: int) -> int:
    """The version of the protocol that the server speaks with a runner that speaks the present one, and all up to this."""
    credentials = system.register_runner(f"speaks-{newest}")
    with hub(system, runner_token(system, credentials)) as client:
        return client.ask(runner_hello(credentials, newest_protocol=newest))["protocol"]


@pytest.mark.feature("C5.negotiated", "V1.reported", "O4.adopted")
def test_a_server_works_with_runners_and_executors_of_the_version_before_and_after(system: System) -> None:
    """Each claims and starts an apply, and its executor finishes it after the runner was replaced by one of the other version."""
    system.start_server(runner=False)
    credentials = system.register_runner()
    witness, gates = system.directory / "witness", [system.directory / "gate-0", system.directory / "gate-1"]
    for index, gate in enumerate(gates):
        system.module(f"slow-{index}", modules.gated_apply(str(witness), str(gate)))
    runner = system.start_runner(credentials | before())
    for index, (number, other, other_number) in enumerate((("0.0.9", after(), "0.2.0"), ("0.2.0", before(), "0.0.9"))):
        wait_for_version(system, number)
        slow = system.run(f"slow-{index}", "APPLY")
        eventually(
            lambda count=index + 1: witness.exists() and witness.read_text().count("begin") == count, what="begin"
        )
        executor = system.executor(slow)
        own = Path(f"/proc/{executor}/environ").read_bytes()
        runner.kill(signal.SIGKILL)
        runner = system.start_runner(credentials | other)
        wait_for_version(system, other_number)
        assert other["PYTHONPATH"].encode() not in own, "the executor is of the version of its own runner"
        gates[index].touch()
        found = system.wait(slow)
        assert (found["status"], found["attempt"]) == ("SUCCEEDED", 1), runner.log.read_text()
        assert "Apply complete" in system.log(slow)
    assert witness.read_text().split() == ["begin", "end"] * 2
    assert agreed(system, NEWEST + 1) == NEWEST


class Load:
    """Queues plans and applies of a few modules all the time, several of them at once."""

    def __init__(self, system: System, count: int) -> None:
        self._system = system
        self.jobs: list[tuple[str, str, str]] = []
        self._is_over = threading.Event()
        self._errors: list[BaseException] = []
        for index in range(count):
            system.module(f"m{index}", modules.counted(str(system.directory / f"m{index}.witness")))
        self._threads = [threading.Thread(target=self._run, args=[f"m{index}"], daemon=True) for index in range(count)]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(120)
        assert not self._errors, self._errors

    def wait_for_more(self, count: int = 2) -> None:
        """Wait until so many jobs that are queued from now on have ended."""
        self._is_over.wait(LOAD_SECONDS)
        first = len(self.jobs)
        eventually(
            lambda: sum(self._has_ended(job) for *_, job in self.jobs[first:]) >= count, within=90, what="more jobs"
        )

    def _has_ended(self, job: str) -> bool:
        return self._system.status(job) == "SUCCEEDED"

    def _run(self, module: str) -> None:
        try:
            for turn in itertools.count():
                if self._is_over.is_set():
                    return
                kind = "PLAN" if turn % 3 == 2 else "APPLY"
                job = self._through(lambda kind=kind: self._system.run(module, kind))
                self.jobs.append((module, kind, job))
                self._through(lambda job=job: self._system.wait(job, within=120))
        except BaseException as error:
            self._errors.append(error)

    def _through(self, ask: Callable[[], Any]) -> Any:
        """Ask again while a server is being replaced: what was answered with an error may not have happened, or have."""

        def answer() -> list[Any] | None:
            try:
                return [ask()]
            except Unavailable:
                return None
            except TerracrewError as error:
                if error.is_transient:
                    return None
                raise

        return eventually(answer, within=60, what="an answer")[0]


def replace(system: Fleet, index: int, newer: dict[str, str]) -> None:
    assert system.servers[index].stop() == 0
    with environment(system, newer):
        system.servers[index] = system.start_one(index)


@pytest.mark.postgres
@pytest.mark.feature("V3.update", "O1.continues")
def test_servers_and_runners_are_upgraded_under_load_and_no_job_is_lost(two: Fleet) -> None:
    """Two servers are replaced one after the other, while the older one uses tables that each have a new column; then the runners."""
    newer = after()
    credentials = {name: two.register_runner(name) for name in ("crew", "other")}
    runners = {name: two.start_runner(each, name) for name, each in credentials.items()}
    for name in runners:
        wait_for_version(two, __version__, name, name)
    with Load(two, 2) as load:
        load.wait_for_more()
        replace(two, 0, newer)
        load.wait_for_more()
        assert "ends" not in two.servers[1].log.read_text(), "the older server goes on"
        replace(two, 1, newer)
        load.wait_for_more()
        for name, each in credentials.items():
            assert runners[name].stop() == 0
            runners[name] = two.start_runner(each | newer, name)
            wait_for_version(two, "0.2.0", name, name)
        load.wait_for_more()
    assert len(load.jobs) >= 8
    for _, kind, job in load.jobs:
        found = two.wait(job)
        # A server that is stopped may have claimed a job for a runner that it has closed the connection to.
        ran = [each["outcome"] for each in found["attempts"] if each["outcome"] != "handed_back" or each["started_at"]]
        assert (found["status"], ran) == ("SUCCEEDED", ["succeeded"]), found["attempts"]
        assert not any(each["may_hold_lock"] for each in found["attempts"])
        text = two.log(job)
        assert ("Apply complete" in text) if kind == "APPLY" else ("Plan:" in text or "No changes" in text), text
    everything = two.api.list("/jobs")
    assert {each["id"] for each in everything} == {job for *_, job in load.jobs}, "and none was made twice"
    for module in ("m0", "m1"):
        applies = [job for name, kind, job in load.jobs if (name, kind) == (module, "APPLY")]
        assert (two.directory / f"{module}.witness").read_text().split() == ["applied"] * len(applies)
    assert agreed(two, NEWEST + 1) == NEWEST + 1
    assert agreed(two, NEWEST) == NEWEST
    assert versions_of_servers(two) == {"0.2.0"}


def versions_of_servers(system: Fleet) -> set[str]:
    with psycopg.connect(system.database_url) as connection:
        return {version for (version,) in connection.execute("SELECT version FROM servers").fetchall()}


@pytest.mark.postgres
@pytest.mark.feature("V3.update", "S5.incompatible")
@thorough
def test_older_servers_end_before_a_change_that_they_cannot_use_and_a_running_apply_goes_on(two: Fleet) -> None:
    """They went on with statements for tables that had changed."""
    newest = after_that()
    credentials = two.register_runner()
    two.start_runner(credentials)
    witness, gate = two.directory / "witness", two.directory / "gate"
    two.module("slow", modules.gated_apply(str(witness), str(gate)))
    job = two.run("slow", "APPLY")
    eventually(lambda: witness.exists() and "begin" in witness.read_text(), what="the apply")
    two.servers[1].stop()
    reasons: list[str] = []
    watcher = threading.Thread(target=_watch, args=[two, reasons], daemon=True)
    watcher.start()
    with environment(two, newest):
        two.servers[1] = two.start_one(1)
    assert ended(two.servers[0]) == Incompatible.exit_code
    said = two.servers[0].log.read_text()
    assert "Terracrew 0.3.0 is starting and waits to change the database" in said
    assert f"This is Terracrew {__version__}, which knows the database up to version {NEXT_MIGRATION - 1}" in said
    watcher.join(10)
    assert any("Install Terracrew 0.3.0 here" in each for each in reasons), "a load balancer and a person have seen why"
    assert "waiting for older servers to end" in two.servers[1].log.read_text()
    assert versions_of_servers(two) == {"0.3.0"}
    again = two.launch(0)
    assert ended(again) == Incompatible.exit_code
    assert "install Terracrew 0.3.0 here. The way back" in " ".join(again.log.read_text().split())
    gate.touch()
    found = two.wait(job)
    assert (found["status"], found["attempt"]) == ("SUCCEEDED", 1)
    assert witness.read_text().split() == ["begin", "end"]
    assert two.wait(two.run("slow"))["status"] == "SUCCEEDED", "and the newer server has the crew"


def _watch(system: Fleet, reasons: list[str]) -> None:
    """Ask the older server whether it is ready, as a load balancer does, until it has said no."""
    while not reasons:
        try:
            answer = urllib3.request("GET", f"http://127.0.0.1:{system.ports[0]}/readyz", retries=False, timeout=5)
        except urllib3.exceptions.HTTPError:
            return  # it has ended
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            reasons.append(answer.json()["detail"])
        time.sleep(0.1)
