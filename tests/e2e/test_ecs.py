"""A whole Terracrew whose executors are tasks of ECS: a real server and runner, the emulator of ECS, and tasks that run in Docker."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.system import System, eventually
from tests.e2e.waiting_room import WaitingRoom
from tests.machine import platforms
from tests.machine.platforms import ecs_agent, executor_image
from tests.machine.platforms.ecs_agent import EcsAgent

pytestmark = [pytest.mark.engine, pytest.mark.platform("aws", "docker"), pytest.mark.timeout(600)]

WITHIN_SECONDS = 240.0
_DATA = "TERRACREW_JOB_DISPATCHER_DATA_"


class Fleet:
    def __init__(self, system: System) -> None:
        endpoint, docker = platforms.need("aws"), platforms.need("docker")
        self.system, self.agent = system, EcsAgent(endpoint, docker, executor_image.image(docker))
        variables = {
            "TERRACREW_JOB_DISPATCHER_TYPE": "ecs",
            f"{_DATA}TASK_DEFINITION": ecs_agent.FAMILY,
            f"{_DATA}REGION": ecs_agent.REGION,
            f"{_DATA}CLUSTER": self.agent.cluster,
            f"{_DATA}LAUNCH_TYPE": "fargate",
            f"{_DATA}SUBNETS": self.agent.subnet,
            f"{_DATA}SECURITY_GROUPS": self.agent.security_group,
            f"{_DATA}ENGINES": "tofu 1.12.6",
            f"{_DATA}ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
        }
        system.start_server(runner=False)
        self.credentials = system.register_runner() | variables
        self.runner = system.start_runner(self.credentials)


@pytest.fixture
def fleet(system: System) -> Iterator[Fleet]:
    fleet = Fleet(system)
    yield fleet
    fleet.runner.stop()
    fleet.agent.close()


@pytest.fixture
def waiting_room() -> Iterator[WaitingRoom]:
    with WaitingRoom() as room:
        yield room


@pytest.mark.feature("D1.others", "D5.ecs")
def test_a_job_runs_in_a_task_that_is_tagged_with_its_attempt(fleet: Fleet) -> None:
    system = fleet.system
    system.module("app", 'resource "terraform_data" "a" {}\noutput "said" { value = "hello" }\n')
    job = system.run("app", "APPLY")
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"
    assert "Apply complete! Resources: 1 added" in system.log(job)
    task = fleet.agent.task_of(f"{job}.1")
    eventually(lambda: task.last_status == "STOPPED", within=WITHIN_SECONDS, what="the end of the task")
    assert task.containers[0].exitCode == 0


@pytest.mark.feature("D5.ecs", "O4.adopted")
def test_a_killed_runner_finds_its_tasks_again(fleet: Fleet, waiting_room: WaitingRoom) -> None:
    system = fleet.system
    system.module("app", waiting_room.module)
    job = system.run("app", "APPLY")
    waiting_room.reached(WITHIN_SECONDS)
    fleet.runner.kill()
    fleet.runner = system.start_runner(fleet.credentials)
    waiting_room.open()
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"
    assert [each["number"] for each in system.job(job)["attempts"]] == [1]
    assert len(fleet.agent.tasks) == 1


@pytest.mark.feature("O3.requeued", "D5.ecs")
def test_a_task_that_is_stopped_in_the_middle_of_an_apply_is_a_loss_and_the_job_says_who_ended_it(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    system = fleet.system
    system.module("app", waiting_room.module)
    job = system.run("app", "APPLY")
    waiting_room.reached(WITHIN_SECONDS)
    fleet.agent.stop(f"{job}.1", "Your Spot Task was interrupted.", "SpotInterruption")
    # The engine had the time to save its state, so nothing is in doubt, and the job is tried again.
    waiting_room.reached(WITHIN_SECONDS)
    cause = "the capacity of its task was taken away, because it was spot capacity: Your Spot Task was interrupted."
    eventually(lambda: cause in first_attempt(system, job)["reason"], within=WITHIN_SECONDS, what="the cause")
    assert first_attempt(system, job)["outcome"] == "gone"
    waiting_room.open()
    ended = system.wait(job, WITHIN_SECONDS)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), ended


@pytest.mark.feature("O3.doubt", "D5.ecs")
def test_a_task_that_is_killed_in_the_middle_of_an_apply_leaves_the_module_in_doubt(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    system = fleet.system
    system.module("app", waiting_room.module)
    job = system.run("app", "APPLY")
    waiting_room.reached(WITHIN_SECONDS)
    os.kill(fleet.agent.first_pid(f"{job}.1"), signal.SIGKILL)

    def waits() -> dict[str, Any] | None:
        return found if (found := system.job(job))["status"] == "AWAITING_APPROVAL" else None

    (doubt,) = eventually(waits, within=WITHIN_SECONDS, what="the question")["doubts"]
    assert (doubt["attempt"], doubt["is_gone"]) == (1, True)
    assert "its container ended with exit code 137" in doubt["reason"]


def first_attempt(system: System, job: str) -> dict[str, Any]:
    return system.job(job)["attempts"][0]
