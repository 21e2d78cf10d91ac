"""A throw-away machine runs one job with a once token: real processes, real OpenTofu jobs."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.system import Process, System, eventually, running

pytestmark = pytest.mark.feature("A2.once")
ENDED_SECONDS = 120


@pytest.fixture
def system(tmp_path: Path) -> Iterator[System]:
    with running(tmp_path) as opened:
        opened.start_server(runner=False)
        opened.register_runner("vms", allow_multiple_instances=True)
        yield opened


def once_token(system: System, seconds: int = 3600) -> dict[str, Any]:
    return system.api.post("/runners/vms/once-tokens", {"seconds": seconds})


def start(system: System, token: dict[str, Any], instance: str, *options: str, at: str = "") -> Process:
    """Start a machine with the token, in a directory of its own, which may have the path of another machine's."""
    env = system.env | token["environment"] | {"TERRACREW_SERVER__URL": system.url}
    directory = str(system.runner_directory(at or instance))
    arguments = ["runner", "start", "--once", *options, "--instance", instance, "--working-directory", directory]
    return system.start(f"runner-{instance}", arguments, env)


def code_of(process: Process) -> int:
    """The exit code of a process that ends by itself."""
    try:
        return process.wait(ENDED_SECONDS)
    except subprocess.TimeoutExpired:
        raise AssertionError(f"{process.name} still runs: {process.log.read_text()[-3000:]}") from None


def tokens(system: System) -> list[tuple[str, int | None]]:
    return [(each["status"], each["job_number"]) for each in system.api.get("/runners/vms/once-tokens")["items"]]


def test_one_machine_runs_one_job_and_delivers_all_of_it(system: System, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    system.module("app/chatty", modules.chatty_apply(500, str(witness)))
    system.module("app/next", modules.quick())
    job, following = system.run("app/chatty", "APPLY"), system.run("app/next")
    machine = start(system, once_token(system), "one")
    assert code_of(machine) == 0, machine.log.read_text()
    assert system.status(job) == "SUCCEEDED"
    assert [line for line in system.log(job).splitlines() if "line-500-of-it" in line]
    assert system.state("app/chatty")["resources"]
    assert system.status(following) == "QUEUED"
    assert not any((system.runner_directory("one") / "attempts").iterdir())
    assert tokens(system) == [("used", system.job(job)["number"])]


def test_the_exit_code_tells_of_a_failure_and_of_a_plan_that_waits(system: System) -> None:
    system.module("app/broken", modules.scripted_apply("exit 1"))
    system.run("app/broken", "APPLY")
    assert code_of(start(system, once_token(system), "one")) == 10
    system.module("app/web", modules.quick(), needs_approval=True)
    job = system.run("app/web", "APPLY")
    assert code_of(start(system, once_token(system), "two")) == 14
    assert system.status(job) == "AWAITING_APPROVAL"
    terracrew(system, "job", "approve", str(system.job(job)["number"]), "--yes")
    shutil.rmtree(system.runner_directory("two"))
    assert code_of(start(system, once_token(system), "three", at="two")) == 0
    assert system.status(job) == "SUCCEEDED"


def test_of_two_machines_with_one_token_one_runs_a_job(system: System, tmp_path: Path) -> None:
    gates = [tmp_path / "gate-a", tmp_path / "gate-b"]
    for name, gate in zip("ab", gates, strict=True):
        system.module(f"app/{name}", modules.gated_apply(str(tmp_path / f"witness-{name}"), str(gate)))
    jobs = [system.run(f"app/{name}", "APPLY") for name in "ab"]
    token = once_token(system)
    machines = [start(system, token, name) for name in ("one", "two")]
    eventually(lambda: any(system.status(job) == "PROCESSING" for job in jobs), what="a job that runs")
    eventually(lambda: any(each.poll() == 15 for each in machines), what="the end of the other machine")
    for gate in gates:
        gate.touch()
    assert sorted(map(code_of, machines)) == [0, 15]
    assert sorted(system.status(job) for job in jobs) == ["QUEUED", "SUCCEEDED"]


def test_a_machine_that_is_killed_adopts_its_job_and_claims_no_other(system: System, tmp_path: Path) -> None:
    gate, witness = tmp_path / "gate", tmp_path / "witness"
    system.module("app/slow", modules.gated_apply(str(witness), str(gate)))
    job, token = system.run("app/slow", "APPLY"), once_token(system)
    machine = start(system, token, "one")
    eventually(lambda: witness.exists(), what="the apply")
    system.module("app/next", modules.quick())
    following = system.run("app/next")
    machine.kill()
    again = start(system, token, "one")
    eventually(lambda: "found attempt 1" in again.log.read_text(), what="the adoption")
    gate.touch()
    assert code_of(again) == 0
    assert witness.read_text().split() == ["begin", "end"]
    assert (system.status(job), system.status(following)) == ("SUCCEEDED", "QUEUED")
    assert code_of(start(system, token, "one")) == 15, "the token has ended with the job"
    assert system.status(following) == "QUEUED"


def test_a_machine_that_is_killed_for_good_leaves_an_executor_that_delivers(system: System, tmp_path: Path) -> None:
    gate, witness = tmp_path / "gate", tmp_path / "witness"
    system.module("app/slow", modules.gated_apply(str(witness), str(gate)))
    job = system.run("app/slow", "APPLY")
    machine = start(system, once_token(system), "one")
    eventually(lambda: witness.exists(), what="the apply")
    machine.kill()
    gate.touch()
    assert system.wait(job)["status"] == "SUCCEEDED"
    assert eventually(lambda: [each for each in tokens(system) if each[0] == "used"])


def test_a_token_that_is_revoked_ends_a_machine_that_waits_and_spares_one_that_works(
    system: System, tmp_path: Path
) -> None:
    gate, witness = tmp_path / "gate", tmp_path / "witness"
    waits = once_token(system)
    idle = start(system, waits, "idle")
    eventually(lambda: "connected to" in idle.log.read_text(), what="the connection")
    system.api.delete(f"/runners/vms/once-tokens/{waits['id']}")
    assert code_of(idle) == 15
    assert "was revoked" in idle.log.read_text()
    system.module("app/slow", modules.gated_apply(str(witness), str(gate)))
    job, works = system.run("app/slow", "APPLY"), once_token(system)
    busy = start(system, works, "busy")
    eventually(lambda: witness.exists(), what="the apply")
    system.api.delete(f"/runners/vms/once-tokens/{works['id']}")
    eventually(lambda: "was revoked" in busy.log.read_text(), what="the end of the token")
    gate.touch()
    assert code_of(busy) == 0
    assert system.status(job) == "SUCCEEDED"


def test_a_machine_without_a_job_ends_in_time_and_one_with_a_worker_token_takes_one_job(system: System) -> None:
    assert code_of(start(system, once_token(system), "bored", "--wait", "3s")) == 15
    system.module("app/web", modules.quick())
    worker = {"environment": system.register_runner("worker")}
    job = system.run("app/web")
    assert code_of(start(system, worker, "worker")) == 0
    assert system.status(job) == "SUCCEEDED"


def test_the_command_prints_what_the_machine_needs(system: System) -> None:
    printed = terracrew(system, "runner", "once-token", "create", "vms", "--valid-for", "10m")
    assert "export TERRACREW_RUNNER__CREDENTIALS__WORKER_TOKEN=tco_" in printed
    assert "\nterracrew runner start --once\n" in printed
    listed = terracrew(system, "runner", "once-token", "list", "vms")
    assert "waiting" in listed
    token_id = next(word for word in listed.split() if word.startswith("onc_"))
    terracrew(system, "runner", "once-token", "revoke", "vms", token_id)
    assert "revoked" in terracrew(system, "runner", "once-token", "list", "vms")
