"""Jobs that ask for a dispatcher: a real server, a real runner with several dispatchers, and the real OpenTofu."""

import pytest

from terracrew.attempt import files
from tests.e2e import modules
from tests.e2e.system import System, eventually
from tests.machine import platforms
from tests.machine.platforms import executor_image

pytestmark = [pytest.mark.engine, pytest.mark.feature("D1.asked")]

WITHIN_SECONDS = 240.0
SECOND = {"TERRACREW_JOB_DISPATCHERS_SECOND_TYPE": "local"}


def dispatcher_of(system: System, job: str) -> str | None:
    file = system.runner_directory() / "attempts" / f"{job}.1" / files.DISPATCHER
    return file.read_text() if file.exists() else None


@pytest.mark.timeout(240)
@pytest.mark.feature("O4.adopted")
def test_a_job_gets_the_dispatcher_that_its_group_asks_for_also_across_a_restart_of_the_runner(
    system: System,
) -> None:
    witness, gate = system.directory / "witness", system.directory / "gate"
    system.start_server(runner=False)
    credentials = system.register_runner() | SECOND
    runner = system.start_runner(credentials)
    system.module("plain/app", modules.quick())
    system.module("net/app", modules.gated_apply(str(witness), str(gate)))
    system.api.patch("/groups/net", {"dispatcher": {"name": "second"}})
    job = system.run("net/app", "APPLY")
    eventually(witness.exists, what="the change")
    assert system.job(job)["dispatcher"] == {"name": "second"}
    assert dispatcher_of(system, job) == "second local"
    runner.kill()
    system.start_runner(credentials)
    gate.touch()
    ended = system.wait(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), ended
    plain = system.run("plain/app", "APPLY")
    assert system.wait(plain)["status"] == "SUCCEEDED"
    assert system.job(plain)["dispatcher"] == {}


@pytest.mark.timeout(240)
@pytest.mark.feature("S6.words")
def test_a_job_that_no_runner_can_have_says_what_is_missing_until_one_offers_it(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    system.module("app", modules.quick(), dispatcher={"name": "second"})
    job = system.run("app", "APPLY")
    eventually(lambda: "no_dispatcher" in str(system.job(job)["reason"]), what="the reason")
    reason = system.job(job)["reason"]
    assert reason["text"].startswith(
        "no online runner that is assigned here offers the dispatcher second (offered: default, local)"
    )
    runner.stop()
    system.start_runner(credentials | SECOND)
    assert system.wait(job)["status"] == "SUCCEEDED"


@pytest.mark.timeout(600)
@pytest.mark.platform("docker")
@pytest.mark.feature("D1.docker", "D1.allowed")
def test_one_runner_starts_some_jobs_as_processes_and_others_in_containers_with_the_memory_that_they_ask_for(
    system: System,
) -> None:
    address = platforms.need("docker")
    big = {
        "TYPE": "docker",
        "DATA_HOST": address,
        "DATA_IMAGE": executor_image.image(address),
        "DATA_LOCAL_IMAGE": "true",
        "DATA_NETWORK": "host",
        "DATA_MEMORY_LIMIT": "1 GB",
        "ALLOW_MAX_MEMORY_MB": "768",
        "ALLOW_IMAGES": executor_image.image(address).partition(":")[0] + ":*",
    }
    system.start_server(runner=False)
    credentials = system.register_runner()
    system.start_runner(credentials | {f"TERRACREW_JOB_DISPATCHERS_BIG_{name}": value for name, value in big.items()})
    # The file of either version of cgroups.
    limit = "cat /sys/fs/cgroup/memory.max /sys/fs/cgroup/memory/memory.limit_in_bytes 2>/dev/null"
    show = f'provisioner "local-exec" {{ command = "echo limit $({limit}) of $(pwd)" }}'
    system.module("here", f'resource "terraform_data" "a" {{\n{show}\n}}\n')
    asked = {"name": "docker", "memory_mb": 512, "image": executor_image.image(address)}
    system.module("there", f'resource "terraform_data" "a" {{\n{show}\n}}\n', dispatcher=asked)
    system.module("nowhere", modules.quick(), dispatcher={"name": "docker", "image": "evil.example/executor:1"})
    here, there, nowhere = (system.run(name, "APPLY") for name in ("here", "there", "nowhere"))
    assert system.wait(there, WITHIN_SECONDS)["status"] == "SUCCEEDED", system.log(there)
    assert system.wait(here, WITHIN_SECONDS)["status"] == "SUCCEEDED"
    assert f"limit {512 << 20} of" in system.log(there)
    assert f"limit {512 << 20} of" not in system.log(here)
    assert str(system.directory) in system.log(here), "it was a process of the runner's machine"
    assert str(system.directory) not in system.log(there)
    reason = system.job(nowhere)["reason"]
    assert reason["code"] == "no_dispatcher"
    assert "with the image evil.example/executor:1 (allowed: " in reason["text"]
