"""A cloud-hosted runner from its deployment to its removal: a real server and fleet process, an emulated account, and tasks that are
real runners."""

import importlib
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.gate import Gate
from tests.e2e.system import System, eventually
from tests.machine import leaks
from tests.machine.platforms.aws import Aws
from tests.machine.platforms.fargate import ACCOUNT, REGION, Fargate
from tests.machine.task_processes import TaskProcesses

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
ROLE = f"arn:aws:iam::{ACCOUNT}:role/terracrew"
IDLE_SECONDS = 2
"""Less than people can choose, so that tests need not wait."""
IMAGE = "registry.example.com/terracrew-runner:0.1.0"
SMALL = 'resource "terraform_data" "made" {\n  input = "made"\n}\noutput "made" {\n  value = terraform_data.made.output\n}\n'


class Account:
    """An account of AWS whose tasks run on this machine, and a server that may use it."""

    def __init__(self, system: System, fargate: Fargate, endpoint: str) -> None:
        self.system, self.fargate = system, fargate
        self.tasks = TaskProcesses(system, fargate)
        self.tasks.changed_variables = {"TERRACREW_RUNNER__IDLE_SECONDS": str(IDLE_SECONDS)}
        fargate.machine = self.tasks
        system.env |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }
        system.starts_real_commands = True  # a test reads the memory of the server
        self.server = system.start_server(runner=False)
        identity = {"name": "aws", "role_arn": ROLE, "region": REGION, "way": "workload"}
        system.api.post("/cloud-identities", identity)

    def deploy(self, **settings: Any) -> dict[str, Any]:
        """Deploy a runner, and return its job when that has ended."""
        chosen = {"image": IMAGE, "idle_seconds": 10} | settings
        made = self.system.api.post("/runners/deploy", {"name": "burst", "identity": "aws", "settings": chosen})
        return self.ended(made["job"]["id"])

    def ended(self, job_id: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            job: dict[str, Any] = self.system.api.get(f"/fleet-jobs/{job_id}")
            return job if job["finished_at"] else None

        return eventually(found, within=90, what="the end of the job")

    def status(self) -> str:
        return str(self.system.api.get("/runners/burst")["status"])

    def session_keys(self) -> list[str]:
        """The secret keys and tokens of all sessions that the account has given away."""
        backends: Any = importlib.import_module("moto.sts.models").sts_backends
        found = [role for backend in backends.values() for each in backend.values() for role in each.assumed_roles]
        return [key for role in found for key in (role.secret_access_key, role.session_token)]

    def found(self) -> list[dict[str, Any]]:
        """What of ours is in the account."""
        return self.system.api.post("/cloud-identities/aws/report", {})["resources"]


@pytest.fixture
def account(system: System) -> Iterator[Account]:
    emulator, fargate = Aws(), Fargate()
    fargate.start_seconds = 1.0
    endpoint = emulator.join()
    try:
        with fargate.installed():
            made = Account(system, fargate, endpoint)
            yield made
            made.tasks.close()
    finally:
        emulator.leave()


@pytest.mark.feature("W2.deploy", "W3.scale", "W5.destroy", "X1.runners", "V3.update", "V3.trial")
def test_a_runner_is_deployed_sleeps_wakes_for_a_job_is_updated_and_removed(account: Account, gate: Gate) -> None:
    system = account.system
    deployed = account.deploy()
    assert (deployed["status"], deployed["error"]) == ("SUCCEEDED", "")
    assert {step["status"] for step in deployed["steps"]} == {"done"}
    assert account.status() == "ONLINE"
    eventually(lambda: account.status() == "ASLEEP", what="the sleep of the idle runner")
    eventually(lambda: set(account.tasks.exit_codes.values()) == {0}, what="the end of the process, by itself")

    system.module("network", SMALL)
    before = len(account.fargate.requests)
    began = time.monotonic()
    job = system.run("network", "APPLY")
    eventually(lambda: "run_task" in account.fargate.requests[before:], within=10, what="the wake")
    assert time.monotonic() - began < 5, "the wake takes a second on a quiet machine"
    reason = eventually(lambda: system.job(job).get("reason"), what="a reason")
    assert "starting a cloud-hosted runner" in str(reason)
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED"
    eventually(lambda: account.status() == "ASLEEP", what="the sleep after the job")
    _require_secret_sessions(account)
    _update_with_a_running_job(account, gate)

    gone = system.api.post("/runners/burst/destroy", {})
    removed = account.ended(gone["job"]["id"])
    assert (removed["status"], removed["error"]) == ("SUCCEEDED", "")
    assert account.found() == []
    assert system.api.get("/runners")["items"] == []


def _update_with_a_running_job(account: Account, gate: Gate) -> None:
    """The job ends on the instance that it began on, which then leaves; the next one runs on the new revision."""
    system = account.system
    waits = 'data "terraform_remote_state" "at" {\n  backend = "http"\n  config = { address = "%s" }\n}\n'
    system.module("held", waits % gate.address)
    held = system.run("held", "PLAN")
    assert gate.reached.wait(60), "the job has begun"
    old = system.job(held)["instance_name"]
    updated = account.ended(system.api.post("/runners/burst/deploy", {"log_days": 7})["job"]["id"])
    assert (updated["status"], updated["error"]) == ("SUCCEEDED", "")
    last = {step["name"]: step["detail"] for step in updated["steps"]}
    assert "ran init, plan and apply of a configuration that changes nothing" in last["trial"]
    assert system.status(held) == "PROCESSING"
    after = system.wait(system.run("network", "PLAN"))
    assert after["status"] == "SUCCEEDED"
    assert after["instance_name"] != old
    assert system.status(held) == "PROCESSING", "nobody ends an instance that has a job"
    gate.open()
    ended = system.wait(held)
    assert (ended["status"], ended["instance_name"], ended["attempt"]) == ("SUCCEEDED", old, 1)
    eventually(lambda: account.status() == "ASLEEP", what="the end of the old instance, and the sleep of the new one")
    assert set(account.tasks.exit_codes.values()) == {0}, "every process has ended by itself"


def _require_secret_sessions(account: Account) -> None:
    """After a deployment and starts, the keys of the sessions are in the memory of the fleet process and nowhere else."""
    keys = account.session_keys()
    assert keys
    for path, content in leaks.files(account.system.directory):
        assert not [each for each in keys if each.encode() in content], path
    if os.getuid() == 0:  # only root can read the memory of these processes
        holders = [pid for pid in leaks.fleet_processes() if leaks.held_in_memory(pid, *keys)]
        assert holders, "the search does not find what is there"
        assert leaks.held_in_memory(account.server.pid, *keys) == []
