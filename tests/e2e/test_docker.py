"""A whole Terracrew whose executors are containers: a real server, a real runner, a real daemon and the real OpenTofu."""

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terracrew.protocol.messages import MAX_INLINE_ARCHIVE_BYTES
from terracrew.runner.dispatch.docker import containers
from tests.e2e.system import System, eventually
from tests.e2e.waiting_room import WaitingRoom
from tests.machine import platforms, providers
from tests.machine.platforms import executor_image
from tests.machine.platforms.containers import Containers

pytestmark = [pytest.mark.engine, pytest.mark.platform("docker"), pytest.mark.timeout(600)]

WITHIN_SECONDS = 240.0
KEPT = "/terracrew-cache/plugins/terracrew.test"


@pytest.fixture
def waiting_room() -> Iterator[WaitingRoom]:
    with WaitingRoom() as room:
        yield room


class Fleet:
    def __init__(self, system: System, more: Mapping[str, str] | None = None) -> None:
        self.system, self.address = system, platforms.need("docker")
        self.variables = {
            "TERRACREW_JOB_DISPATCHER_TYPE": "docker",
            "TERRACREW_JOB_DISPATCHER_DATA_HOST": self.address,
            "TERRACREW_JOB_DISPATCHER_DATA_IMAGE": executor_image.image(self.address),
            "TERRACREW_JOB_DISPATCHER_DATA_LOCAL_IMAGE": "true",
            "TERRACREW_JOB_DISPATCHER_DATA_NETWORK": "host",
            "TERRACREW_JOB_DISPATCHER_DATA_MEMORY_LIMIT": "1 GB",
            "TERRACREW_JOB_DISPATCHER_DATA_SPARE": "false",  # so that a test can see that nothing stays
            **(more or {}),
        }
        system.start_server(runner=False)
        self.credentials = system.register_runner() | self.variables
        self.runner = system.start_runner(self.credentials)

    @property
    def containers(self) -> Containers:
        """Those of the runner's instance: its key is in its working directory."""
        key = eventually((self.system.runner_directory() / "instance.key").read_text, what="the key").strip()
        return Containers(self.address, containers.ContainerOwner.for_key(key, "", ""))

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


@pytest.mark.feature("J14.persist", "D3.docker")
def test_containers_keep_providers_and_archives_between_jobs_where_a_cache_is_mounted(
    system: System, tmp_path: Path
) -> None:
    """Every job downloaded its providers and its source again."""
    cache, settings = tmp_path / "cache", tmp_path / "mirror.tfrc"
    cache.mkdir()
    settings.write_text('provider_installation {\n  filesystem_mirror {\n    path = "/mirror"\n  }\n}\n')
    bound = (f"{cache}:/terracrew-cache", f"{providers.mirror()}:/mirror:ro", f"{settings}:/mirror.tfrc:ro")
    data = {"BIND_PATH": ",".join(bound), "ENVIRONMENT": "TF_CLI_CONFIG_FILE"}
    variables = {f"TERRACREW_JOB_DISPATCHER_DATA_{name}": text for name, text in data.items()}
    fleet = Fleet(system, {**variables, "TF_CLI_CONFIG_FILE": "/mirror.tfrc"})
    try:
        source = system.directory / "source" / "one"
        source.mkdir(parents=True)
        (source / "large").write_bytes(random.randbytes(2 * MAX_INLINE_ARCHIVE_BYTES))
        seen, written = (
            "ls /terracrew-cache/archives && echo SEE''N",
            "touch /terracrew-cache/plugins/x && echo WRITT''EN",
        )
        tried = f"readlink .terraform/providers/terracrew.test/terracrew/testing/1.0.0/*; {seen}; {written}; true"
        look = f'resource "terraform_data" "a" {{\n  provisioner "local-exec" {{ command = "{tried}" }}\n}}\n'
        main = providers.required("testing") + look
        system.module("one", main)
        system.module("two", main)
        first = system.run("one", "APPLY")
        assert system.wait(first, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.log(first)
        assert KEPT not in system.log(first)
        eventually(fleet.removed, within=WITHIN_SECONDS, what="the end of the container")
        assert len(list((cache / "archives").iterdir())) == 1
        assert [each.name for each in (cache / "plugins").rglob("*.h1")], "the provider is kept"
        second = system.run("two", "APPLY")
        assert system.wait(second, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.log(second)
        assert KEPT in system.log(second)
        assert "SEEN" not in system.log(second), "a module does not see the sources of others"
        assert "WRITTEN" not in system.log(second)
        again = system.run("one", "APPLY")
        assert system.wait(again, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.log(again)
        assert len(list((cache / "archives").iterdir())) == 1
        eventually(fleet.removed, within=WITHIN_SECONDS, what="the end of the container")
    finally:
        fleet.runner.stop()
        fleet.containers.remove_all()
