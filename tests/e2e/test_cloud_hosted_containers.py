"""A cloud-hosted runner whose instances are real containers: a real server and fleet process, and an emulated account."""

import io
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.system import System, eventually
from tests.e2e.waiting_room import WaitingRoom
from tests.machine import platforms
from tests.machine.platforms import executor_image
from tests.machine.platforms.fargate import ACCOUNT, REGION, Fargate
from tests.machine.platforms.task_containers import TaskContainers

pytestmark = [pytest.mark.engine, pytest.mark.platform("aws", "docker"), pytest.mark.timeout(600)]
ROLE = f"arn:aws:iam::{ACCOUNT}:role/terracrew"
IMAGE = "registry.example.com/terracrew-runner:0.1.0"
SMALL = 'resource "terraform_data" "made" {\n  input = "made"\n}\n'
START_SECONDS = 30.0
WITHIN_SECONDS = 240.0


class ContainerAccount:
    """An account of AWS whose tasks are containers of this machine, and a server that may use it."""

    def __init__(self, system: System, fargate: Fargate, endpoint: str, docker: str) -> None:
        self.system, self.fargate = system, fargate
        self.containers = TaskContainers(fargate, docker, executor_image.image(docker))
        fargate.machine = self.containers
        system.env |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": REGION,
        }
        system.start_server(runner=False)
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

        return eventually(found, within=WITHIN_SECONDS, what="the end of the job")

    def log(self, job: dict[str, Any]) -> str:
        out = io.BytesIO()
        self.system.api.download(f"/fleet-jobs/{job['id']}/log", out)
        return out.getvalue().decode()

    def status(self) -> str:
        return str(self.system.api.get("/runners/burst")["status"])


@pytest.fixture
def account(system: System) -> Iterator[ContainerAccount]:
    endpoint, docker, fargate = platforms.need("aws"), platforms.need("docker"), Fargate()
    with fargate.installed():
        made = ContainerAccount(system, fargate, endpoint, docker)
        yield made
        made.containers.close()


@pytest.mark.feature("W2.deploy", "W3.scale", "W5.destroy")
def test_a_runner_in_a_container_that_starts_slowly_wakes_for_a_job_leaves_and_is_removed(
    account: ContainerAccount,
) -> None:
    system = account.system
    deployed = account.deploy()
    assert deployed["status"] == "SUCCEEDED", account.log(deployed)
    eventually(lambda: account.status() == "ASLEEP", within=WITHIN_SECONDS, what="the sleep of the idle runner")
    codes = eventually(lambda: list(account.containers.exit_codes.values()), what="the end of the container")
    assert (codes, account.containers.running()) == ([0], []), "it left by itself"

    account.fargate.start_seconds = START_SECONDS
    system.module("network", SMALL)
    job = system.run("network", "APPLY")
    words = eventually(
        lambda: text if "pulling the image" in (text := str(system.job(job).get("reason"))) else None,
        within=START_SECONDS,
        what="the stage of the start",
    )
    assert "starting a cloud-hosted runner" in words
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"

    gone = system.api.post("/runners/burst/destroy", {})
    removed = account.ended(gone["job"]["id"])
    assert (removed["status"], removed["error"]) == ("SUCCEEDED", "")
    assert account.containers.running() == []
    assert system.api.post("/cloud-identities/aws/report", {})["resources"] == []


@pytest.mark.feature("W3.scale")
def test_a_job_says_why_aws_does_not_start_its_runner_and_runs_when_it_does(account: ContainerAccount) -> None:
    system = account.system
    deployed = account.deploy()
    assert deployed["status"] == "SUCCEEDED", account.log(deployed)
    eventually(lambda: account.status() == "ASLEEP", within=WITHIN_SECONDS, what="the sleep of the idle runner")
    account.fargate.failures.append({"arn": "arn:aws:ecs", "reason": "Capacity is unavailable at this time"})
    system.module("network", SMALL)
    job = system.run("network", "APPLY")
    words = eventually(
        lambda: text if "Capacity is unavailable" in (text := str(system.job(job).get("reason"))) else None,
        within=WITHIN_SECONDS,
        what="the words of AWS",
    )
    assert "the cloud does not start the runner" in words
    assert "on-demand instead" in words
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"


@pytest.mark.feature("W3.scale")
def test_a_job_on_spot_capacity_that_is_taken_back_ends_well_if_it_can(account: ContainerAccount) -> None:
    system = account.system
    deployed = account.deploy(is_spot=True, idle_seconds=300)
    assert deployed["status"] == "SUCCEEDED", account.log(deployed)
    [task] = [each for each in account.fargate.tasks if each.last_status == "RUNNING"]
    assert task.capacity_provider_name == "FARGATE_SPOT"
    with WaitingRoom() as room:
        system.module("app", room.module)
        job = system.run("app", "APPLY")
        room.reached(WITHIN_SECONDS)
        account.fargate.interrupt(task)
        eventually(lambda: task.desired_status == "STOPPED", what="the notice")
        assert account.containers.running() == [task.id]
        room.open()
        assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"
    assert [each["number"] for each in system.job(job)["attempts"]] == [1]
    codes = eventually(lambda: list(account.containers.exit_codes.values()), within=WITHIN_SECONDS, what="its end")
    assert codes == [0]


@pytest.mark.feature("W2.deploy")
def test_a_container_that_dies_at_its_start_fails_the_deployment_with_its_last_lines(account: ContainerAccount) -> None:
    account.containers.command = ["-c", "print('no such server'); raise SystemExit(3)"]
    deployed = account.deploy()
    assert deployed["status"] == "FAILED"
    assert "exit code 3" in deployed["error"]
    assert "no such server" in account.log(deployed)
    assert account.system.api.post("/cloud-identities/aws/report", {})["resources"] == []
