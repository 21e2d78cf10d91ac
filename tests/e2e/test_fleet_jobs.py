"""A runner is deployed by real processes while its server and its fleet process are killed: each thing is made once, and it works."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from terracrew.system import procfs
from tests.e2e.constants import constants, environment
from tests.e2e.system import Process, System, eventually
from tests.fleet.simulated_account import SimulatedAccount
from tests.thoroughness import thorough

pytestmark = [pytest.mark.feature("W4.fleet", "W2.deploy", "W5.destroy"), pytest.mark.timeout(240)]
T = TypeVar("T")
ROOT = Path(__file__).parents[2]
DURATIONS = constants(
    server__fleet_process__child__PROGRAM=["tests.fleet.simulated_process"],
    server__fleet_jobs__decide__LEASE=2,
    server__fleet_jobs__decide__FIRST_RETRY_SECONDS=0.1,
    server__fleet_jobs__loop__RENEW_SECONDS=0.3,
)
"""Another cloud, and a lease that ends soon."""


class Account(SimulatedAccount):
    """The account in a thread of its own, for tests that wait for processes."""

    def __init__(self) -> None:
        super().__init__()
        self._loop = asyncio.new_event_loop()
        self._ended, ready = asyncio.Event(), threading.Event()

        async def serve() -> None:
            async with self.serving():
                ready.set()
                await self._ended.wait()

        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(serve()))
        self._thread.start()
        ready.wait(20)

    def do(self, work: Callable[[], T]) -> T:
        """Call a function in the thread of the account."""

        async def call() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(20)

    def close(self) -> None:
        self.do(self._ended.set)
        self._thread.join(20)


@pytest.fixture
def account() -> Iterator[Account]:
    made = Account()
    yield made
    made.close()


def fleet_process(server: Process) -> int:
    """Wait for the fleet process of a server."""

    def found() -> int | None:
        for each in procfs.descendants(server.pid):
            if b"tests.fleet.simulated_process" in Path(f"/proc/{each.pid}/cmdline").read_bytes():
                return each.pid
        return None

    return eventually(found, what="the fleet process")


def assert_has_nothing_of_the_server(process: int, system: System) -> None:
    variables = Path(f"/proc/{process}/environ").read_bytes()
    assert b"TERRACREW_" not in variables
    opened = [os.readlink(each) for each in Path(f"/proc/{process}/fd").iterdir()]
    assert [each for each in opened if each.startswith(f"{system.data}/")] == []


def started(system: System) -> Process:
    path = {"PYTHONPATH": os.pathsep.join([DURATIONS["PYTHONPATH"], str(ROOT)])}
    with environment(system, DURATIONS | path):
        return system.start_server(runner=False)


def reached(account: Account, key: str, count: int = 1) -> None:
    eventually(lambda: account.count(key) >= count, what=f"request {count} for `{key}`")


def job_of(system: System, number: int) -> dict[str, Any]:
    return system.api.get(f"/fleet-jobs/{number}")


@thorough
def test_a_deployment_that_is_killed_at_every_step_ends_well_and_a_removal_leaves_nothing(
    system: System, account: Account
) -> None:
    server = started(system)
    address = account.url.replace("http:", "https:")
    system.api.post("/cloud-identities", {"name": "sim", "kind": "kubernetes", "api_url": address})
    account.do(lambda: account.hold("put role", "put logs", "put definition"))
    wanted = {"name": "burst", "identity": "sim", "settings": {"image": "registry.example.com/runner:1"}}
    number = system.api.post("/runners/deploy", wanted)["job"]["number"]

    reached(account, "put role")
    os.kill(fleet_process(server), signal.SIGKILL)
    account.do(lambda: account.release("put role"))
    reached(account, "put logs")
    process = fleet_process(server)
    assert_has_nothing_of_the_server(process, system)
    server.kill()
    eventually(lambda: procfs.stat(process) is None, what="the end of the fleet process of a killed server")
    server = started(system)
    account.do(lambda: account.release("put logs"))
    reached(account, "put definition")
    os.kill(fleet_process(server), signal.SIGKILL)
    account.do(lambda: account.release("put definition"))

    started_task = eventually(lambda: [each for each in account.made() if "/task-" in each], what="the first instance")
    [name] = started_task
    runner_id, _, instance = name.partition("/task-")
    secret = account.values[f"{runner_id}/secret"]
    system.start_runner(
        {
            "TERRACREW_RUNNER__ID": runner_id,
            "TERRACREW_RUNNER__CREDENTIALS__WORKER_ID": runner_id,
            "TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN": secret,
            "TERRACREW_RUNNER__ON_TRIAL": "true",
        },
        instance,
    )
    found = eventually(
        lambda: job if (job := job_of(system, number))["status"] not in ("QUEUED", "CLAIMED", "PROCESSING") else None,
        what="the end of the job",
    )
    assert (found["status"], found["error"]) == ("SUCCEEDED", ""), found
    assert found["attempt"] == 4
    assert len(found["losses"]) == 3
    assert [each["status"] for each in found["steps"]] == ["done"] * 6
    assert account.made(f"{runner_id}/") == sorted(
        [name, *(f"{runner_id}/{each}" for each in ("definition", "logs", "role", "secret"))]
    ), "each thing exists once"
    assert system.api.get("/runners/burst")["status"] == "ONLINE"
    log = system.directory / "log.txt"
    with log.open("wb") as out:
        system.api.download(f"/fleet-jobs/{number}/log", out)
    assert secret not in log.read_text()
    assert secret not in (system.directory / "server.log").read_text()

    removal = system.api.post("/runners/burst/destroy", {"force": True})["job"]["number"]
    found = eventually(
        lambda: job if (job := job_of(system, removal))["status"] not in ("QUEUED", "CLAIMED", "PROCESSING") else None,
        what="the end of the removal",
    )
    assert found["status"] == "SUCCEEDED", found
    assert account.made() == []
    assert [each["path"] for each in system.api.list("/runners")] == []
