"""A whole Terracrew whose executors are pods: a real server, a real runner, a real cluster and the real OpenTofu."""

import json
import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from terracrew.runner.dispatch.kubernetes import manifests
from tests.e2e.system import System, eventually
from tests.e2e.waiting_room import WaitingRoom
from tests.machine import engines, platforms
from tests.machine.platforms.kubernetes import Cluster
from tests.machine.platforms.kubernetes.seats import Seats, seats
from tests.machine.platforms.pods import Pods

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker", "kubernetes"), pytest.mark.timeout(900)]

WITHIN_SECONDS = 240.0
QUICK = 'resource "terraform_data" "a" {}\noutput "said" { value = "hello" }\n'
PREFIX = "TERRACREW_JOB_DISPATCHER_DATA_"


@pytest.fixture
def waiting_room() -> Iterator[WaitingRoom]:
    with WaitingRoom() as room:
        yield room


class Fleet:
    def __init__(self, system: System, cluster: Cluster, namespace: str) -> None:
        self.system, self.cluster, self.namespace = system, cluster, namespace
        self.variables = {
            "TERRACREW_JOB_DISPATCHER_TYPE": "kubernetes",
            f"{PREFIX}KUBECONFIG": cluster.kubeconfig,
            f"{PREFIX}NAMESPACE": namespace,
            f"{PREFIX}IMAGE": cluster.executor_image(),
            f"{PREFIX}IMAGE_PULL_POLICY": "Never",
            f"{PREFIX}MEMORY_LIMIT": "1 GB",
            f"{PREFIX}ENGINES": f"tofu {engines.tested_version('tofu').version}",
        }
        # A pod reaches the server and the waiting room of the test, which listen on 127.0.0.1.
        self.use_template({"spec": {"hostNetwork": True}})
        system.start_server(runner=False)
        self._credentials = system.register_runner()

    def use_template(self, template: dict[str, Any]) -> None:
        file = self.system.directory / "pod.json"
        file.write_text(json.dumps(template))
        self.variables[f"{PREFIX}POD_TEMPLATE"] = str(file)

    def start_runner(self) -> None:
        self.runner = self.system.start_runner(self._credentials | self.variables)

    @property
    def pods(self) -> Pods:
        """Those of the runner's instance: its key is in its working directory."""
        key = eventually((self.system.runner_directory() / "instance.key").read_text, what="the key").strip()
        return Pods(self.cluster, self.namespace, manifests.PodOwner.for_key(key, "", ""))

    def is_removed(self) -> bool:
        return not self.pods.names()

    def held(self, waiting_room: WaitingRoom) -> str:
        """Return a job in the middle of its change."""
        self.system.module("app", waiting_room.module)
        job = self.system.run("app", "APPLY")
        waiting_room.reached(WITHIN_SECONDS)
        return job

    def ended_attempt(self, job: str, number: int = 1) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            found = [each for each in self.system.job(job)["attempts"] if each["number"] == number]
            return found[0] if found and found[0]["ended_at"] else None

        return eventually(ended, within=WITHIN_SECONDS, what=f"the end of attempt {number}")

    def wait_for_cause(self, job: str, words: str) -> None:
        """Wait until the first attempt's reason has these words: the runner adds what it knows after the executor has ended."""

        def is_said() -> bool:
            return words in self.system.job(job)["attempts"][0]["reason"]

        eventually(is_said, within=WITHIN_SECONDS, what=f"{words!r} in {self.system.job(job)['attempts']}")


@pytest.fixture
def fleet(system: System) -> Iterator[Fleet]:
    cluster = Cluster.of(platforms.need("kubernetes"))
    with cluster.namespace() as namespace:
        yield Fleet(system, cluster, namespace)


@pytest.mark.feature("D1.kubernetes", "D4.kubernetes")
def test_a_module_is_planned_and_applied_in_pods_and_nothing_of_them_stays(fleet: Fleet) -> None:
    system = fleet.system
    del fleet.variables[f"{PREFIX}ENGINES"]  # the image is asked
    fleet.start_runner()
    system.module("app", QUICK)
    plan = system.run("app", "PLAN")
    assert system.wait(plan, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.job(plan)
    assert "1 to add" in system.log(plan)
    job = system.run("app", "APPLY")
    assert system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.job(job)
    assert "Apply complete! Resources: 1 added" in system.log(job)
    assert system.state("app")["serial"] >= 1
    eventually(fleet.is_removed, within=WITHIN_SECONDS, what="the removal of Jobs and Secrets")


@pytest.mark.feature("O4.adopted", "D1.kubernetes")
def test_a_runner_that_is_killed_in_the_middle_of_an_apply_finds_its_pod_again(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    fleet.start_runner()
    job = fleet.held(waiting_room)
    fleet.runner.kill()
    fleet.start_runner()
    waiting_room.open()
    ended = fleet.system.wait(job, WITHIN_SECONDS)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), ended
    eventually(fleet.is_removed, within=WITHIN_SECONDS, what="the removal of Jobs and Secrets")


@pytest.mark.feature("O4.adopted", "D1.kubernetes")
def test_a_pod_delivers_by_itself_when_its_runner_never_returns(fleet: Fleet, waiting_room: WaitingRoom) -> None:
    fleet.start_runner()
    job = fleet.held(waiting_room)
    fleet.runner.kill()
    waiting_room.open()
    assert fleet.system.wait(job, WITHIN_SECONDS)["status"] == "SUCCEEDED"


@pytest.mark.feature("O3.requeued", "D4.kubernetes")
def test_a_pod_that_is_deleted_in_the_middle_of_an_apply_is_a_loss_and_the_job_says_who_ended_it(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    fleet.start_runner()
    job = fleet.held(waiting_room)
    fleet.pods.kubectl("delete", "pod", fleet.pods.name(f"{job}.1"), "--wait=false")
    assert fleet.ended_attempt(job)["outcome"] == "gone"
    fleet.wait_for_cause(job, "the pod was deleted by somebody else")
    # The engine had the time to save its state, so nothing is in doubt, and the job is tried again.
    waiting_room.reached(WITHIN_SECONDS)
    waiting_room.open()
    ended = fleet.system.wait(job, WITHIN_SECONDS)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), ended


@pytest.mark.feature("O3.doubt", "D4.kubernetes")
def test_a_pod_that_is_killed_in_the_middle_of_an_apply_leaves_the_module_in_doubt(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    fleet.start_runner()
    job = fleet.held(waiting_room)
    os.kill(fleet.pods.first_process(f"{job}.1"), signal.SIGKILL)

    def waits() -> dict[str, Any] | None:
        return found if (found := fleet.system.job(job))["status"] == "AWAITING_APPROVAL" else None

    (doubt,) = eventually(waits, within=WITHIN_SECONDS, what="the question")["doubts"]
    assert (doubt["attempt"], doubt["is_gone"]) == (1, True)
    assert "its pod was ended by signal 9" in doubt["reason"]


@pytest.mark.feature("O3.requeued", "D4.kubernetes", "S6.words")
def test_a_job_whose_pod_is_preempted_says_so_waits_for_room_and_runs_again(
    fleet: Fleet, waiting_room: WaitingRoom
) -> None:
    with seats(fleet.cluster, fleet.namespace) as places:
        fleet.use_template(places.template(hostNetwork=True))
        fleet.start_runner()
        job = fleet.held(waiting_room)
        places.occupy(is_urgent=True)
        assert fleet.ended_attempt(job)["outcome"] == "gone"
        fleet.wait_for_cause(job, "the pod was preempted by one with a higher priority")
        eventually(places.is_occupied, within=WITHIN_SECONDS, what="the pod with a higher priority")
        _wait_for_room(fleet, job, places)
        places.free()
        waiting_room.reached(WITHIN_SECONDS)
        waiting_room.open()
        ended = fleet.system.wait(job, WITHIN_SECONDS)
        assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), ended


def _wait_for_room(fleet: Fleet, job: str, places: Seats) -> None:
    """Wait until the job says that the node is full."""
    words = f"1 Insufficient {places.resource}"
    eventually(
        lambda: words in json.dumps(fleet.system.job(job)["reason"]), within=WITHIN_SECONDS, what=f"the reason {words}"
    )
