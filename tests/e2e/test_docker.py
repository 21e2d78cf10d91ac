"""A whole Terracrew whose executors are containers: a real server, a real runner, a real daemon and the real OpenTofu."""

from collections.abc import Iterator
from typing import Any

import pytest

from terracrew.runner.dispatch.docker import containers
from tests.e2e.system import System, eventually
from tests.e2e.waiting_room import WaitingRoom
from tests.machine import platforms
from tests.machine.platforms import executor_image
from tests.machine.platforms.containers import Containers

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

WITHIN_SECONDS = 240.0


@pytest.fixture
def waiting_room() -> Iterator[WaitingRoom]:
    with WaitingRoom() as room:
        yield room


class Fleet:
    def __init__(self, system: System) -> None:
        self.system, self.address = system, platforms.need("docker")
        self.variables = {
            "TERRACREW_JOB_DISPATCHER_TYPE": "docker",
            "TERRACREW_JOB_DISPATCHER_DATA_HOST": self.address,
            "TERRACREW_JOB_DISPATCHER_DATA_IMAGE": executor_image.image(self.address),
            "TERRACREW_JOB_DISPATCHER_DATA_LOCAL_IMAGE": "true",
            "TERRACREW_JOB_DISPATCHER_DATA_NETWORK": "host",
            "TERRACREW_JOB_DISPATCHER_DATA_MEMORY_LIMIT": "1 GB",
            "TERRACREW_JOB_DISPATCHER_DATA_SPARE": "false",  # so that a test can see that nothing stays
        }
        system.start_server(runner=False)
        self.credentials = system.register_runner() | self.variables
        self.runner = system.start_runner(self.credentials)

    @property
    def containers(self) -> Containers:
        """Those of the runner's instance: its key is in its working directory."""
        key = eventually((self.system.runner_directory() / "instance.key").read_text, what="the key").strip()
        return Containers(self.address, containers.owner(key, "", ""))

    def removed(self) -> bool:
        return not self.containers.names()


@pytest.fixture
def fleet(system: System) -> Iterator[Fleet]:
    fleet = Fleet(system)
    yield fleet
    fleet.runner.stop()
    fleet.containers.remove_all()


def test_a_job_runs_in_a_container_and_nothing_of_it_stays(fleet: Fleet) -> None:
    system = fleet.system
    system.module("app", 'resource "terraform_data" "a" {}\noutput "said" { value = "hello" }\n')
    job = system.run("app", "APPLY")
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"
    assert "Apply complete! Resources: 1 added" in system.log(job)
    eventually(fleet.removed, within=WITHIN_SECONDS, what="the removal of the container and its volume")


@pytest.mark.feature("O3.doubt", "O4.salvaged", "D1.docker")
def test_a_container_that_is_killed_in_the_middle_of_an_apply_leaves_the_module_in_doubt(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    system = fleet.system
    system.module("app", waiting_room.module)
    job = system.run("app", "APPLY")
    waiting_room.reached(WITHIN_SECONDS)
    attempt = f"{job}.1"
    fleet.containers.run("kill", "--signal", "KILL", fleet.containers.owner.name(attempt))

    def waits() -> dict[str, Any] | None:
        return found if (found := system.job(job))["status"] == "AWAITING_APPROVAL" else None

    waiting = eventually(waits, within=WITHIN_SECONDS, what="the question")
    (doubt,) = waiting["doubts"]
    assert (doubt["attempt"], doubt["is_gone"]) == (1, True)
    assert "its container was ended by signal 9" in doubt["reason"]
    assert "at the gate" in system.log(job, 1), "what the dead container left was delivered"
    eventually(fleet.removed, within=WITHIN_SECONDS, what="the removal of the containers and volumes")


@pytest.mark.feature("O4.adopted", "D1.docker")
def test_a_killed_runner_finds_its_containers_again(fleet: Fleet, waiting_room: WaitingRoom) -> None:
    system = fleet.system
    system.module("app", waiting_room.module)
    job = system.run("app", "APPLY")
    waiting_room.reached(WITHIN_SECONDS)
    fleet.runner.kill()
    fleet.runner = system.start_runner(fleet.credentials)
    waiting_room.open()
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"
    assert [each["number"] for each in system.job(job)["attempts"]] == [1]
    eventually(fleet.removed, within=WITHIN_SECONDS, what="the removal of the container and its volume")


@pytest.mark.feature("O4.adopted", "D1.docker")
def test_a_container_delivers_by_itself_when_its_runner_never_returns(fleet: Fleet, waiting_room: WaitingRoom) -> None:
    system = fleet.system
    system.module("app", waiting_room.module)
    job = system.run("app", "APPLY")
    waiting_room.reached(WITHIN_SECONDS)
    fleet.runner.kill()
    waiting_room.open()
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"


@pytest.mark.feature("D3.docker")
def test_a_job_whose_image_is_missing_says_so(system: System) -> None:
    address = platforms.need("docker")
    system.start_server(runner=False)
    prefix = "TERRACREW_JOB_DISPATCHER_DATA_"
    variables = {
        "TERRACREW_JOB_DISPATCHER_TYPE": "docker",
        f"{prefix}HOST": address,
        f"{prefix}IMAGE": "terracrew-test/missing:1",
        f"{prefix}LOCAL_IMAGE": "true",
        f"{prefix}ENGINES": "tofu 1.12.6",
    }
    system.start_runner(system.register_runner() | variables)
    system.module("app", 'resource "terraform_data" "a" {}\n')
    job = system.run("app", "PLAN")

    def returned() -> dict[str, Any] | None:
        ended = [each for each in system.job(job)["attempts"] if each["outcome"] == "handed_back"]
        return ended[0] if ended else None

    attempt = eventually(returned, within=WITHIN_SECONDS, what="the return of the job")
    assert "has no image terracrew-test/missing:1" in attempt["reason"]
