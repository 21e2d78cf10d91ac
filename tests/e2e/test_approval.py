"""A plan waits for a person, holds nothing meanwhile, and goes on elsewhere: the whole system, with the real engine."""

import os
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from terracrew.client.address import segment
from terracrew.errors import Conflict
from tests.e2e import modules
from tests.e2e.approvals import approve, waiting
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

HERE = """
resource "terraform_data" "here" {
  input = path.cwd
  provisioner "local-exec" { command = "echo applied >> WITNESS" }
}
output "here" { value = terraform_data.here.output }
"""


def words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def outcomes(job: dict[str, Any]) -> list[str]:
    return [attempt["outcome"] for attempt in job["attempts"]]


def steps(job: dict[str, Any]) -> dict[str, str]:
    return {step["name"]: step["status"] for step in job["steps"]}


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def module(witness: Path) -> str:
    return HERE.replace("WITNESS", str(witness))


@pytest.mark.feature("J8.slot", "S3.approval")
def test_a_plan_waits_without_slot_lock_or_files_and_is_applied_when_it_is_approved(
    system: System, module: str, witness: Path
) -> None:
    system.start_server(runner=False)
    system.start_runner(system.register_runner(max_jobs=1))
    system.module("app", module, needs_approval=True)
    system.module("other", modules.quick())
    job = system.run("app", "APPLY")
    found = waiting(system, job)
    assert steps(found)["plan"] == "SUCCEEDED"
    assert steps(found)["apply"] == "PENDING"
    attempts = system.runner_directory() / "attempts"
    workspaces = system.runner_directory() / "workspaces"
    eventually(lambda: not list(attempts.iterdir()), what="the end of the attempt")
    assert not list(workspaces.iterdir())
    assert system.wait(system.run("other", "APPLY"))["status"] == "SUCCEEDED", "the slot is free"
    assert system.wait(system.run("app", "PLAN"))["status"] == "SUCCEEDED", "so is the module"
    assert words(witness) == []
    approve(system, job)
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert outcomes(ended) == ["waiting", "succeeded"]
    assert steps(ended) | {"apply": "SUCCEEDED", "plan": "SUCCEEDED", "fetch": "SUCCEEDED"} == steps(ended)
    ran_by = {each["name"]: each["attempt"] for each in ended["steps"]}
    assert (ran_by["plan"], ran_by["apply"]) == (1, 2)
    whole = system.log(job)
    assert re.search(r"1 to add(.|\n)*── Planned in .* · approved by admin ──\n(.|\n)*Apply complete!", whole), whole
    assert not any(each["step"] == "apply" for each in system.events(job, 1)), "the first attempt applied nothing"
    assert words(witness) == ["applied"]
    assert system.state("app")["outputs"]["here"]["value"] == str(workspaces / f"{job}.1")
    assert "Going on with the plan of attempt 1" in system.log(job)
    eventually(lambda: not list(workspaces.iterdir()) and not list(attempts.iterdir()), what="the end of the attempt")
    with pytest.raises(Conflict):
        approve(system, job)


@pytest.mark.feature("J8.same", "S3.approval")
def test_another_instance_at_the_same_place_goes_on_with_the_plan(system: System, module: str, witness: Path) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner(allow_multiple_instances=True)
    first = system.start_runner(credentials)
    system.module("app", module, needs_approval=True)
    job = system.run("app", "APPLY")
    waiting(system, job)
    first.kill()
    shutil.rmtree(system.runner_directory("one"))  # another machine, whose disk has nothing
    system.start_runner(credentials, "two", at="one")
    approve(system, job)
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert outcomes(ended) == ["waiting", "succeeded"]
    assert words(witness) == ["applied"]
    assert "Going on with the plan of attempt 1" in system.log(job)


@pytest.mark.feature("J8.same")
def test_an_instance_at_another_place_plans_again_and_that_plan_waits_for_a_person(
    system: System, module: str, witness: Path
) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner(allow_multiple_instances=True)
    first = system.start_runner(credentials)
    system.module("app", module, needs_approval=True)
    job = system.run("app", "APPLY")
    waiting(system, job)
    first.kill()
    system.start_runner(credentials, "two")
    approve(system, job)
    waiting(system, job, plan=2)
    assert "is not a workspace of this runner" in system.log(job, attempt=2)
    with pytest.raises(Conflict):
        approve(system, job, plan=1)
    assert words(witness) == []
    approve(system, job, plan=2)
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert outcomes(ended) == ["waiting", "waiting", "succeeded"]
    assert words(witness) == ["applied"]


@pytest.mark.feature("J8.same")
def test_a_state_that_changed_while_the_plan_waited_makes_a_new_plan(
    system: System, module: str, witness: Path
) -> None:
    system.start_server(runner=True)
    system.module("app", module, needs_approval=True)
    first, second = system.run("app", "APPLY"), ""
    waiting(system, first)
    second = system.run("app", "APPLY")
    waiting(system, second)
    approve(system, second)
    assert system.wait(second)["status"] == "SUCCEEDED", system.log(second)
    assert system.job(first)["is_plan_stale"]
    with pytest.raises(Conflict, match="has changed since"):
        approve(system, first)
    system.api.post(f"/jobs/{segment(first)}/replan", {"plan": 1})
    waiting(system, first, plan=2)
    assert words(witness) == ["applied"], "the first plan is not applied to a state that it was not made from"
    approve(system, first, plan=2)
    ended = system.wait(first)
    assert ended["status"] == "SUCCEEDED", system.log(first)
    assert outcomes(ended) == ["waiting", "waiting", "succeeded"]


@pytest.mark.feature("J8.decline")
def test_a_declined_plan_is_never_applied(system: System, module: str, witness: Path) -> None:
    system.start_server(runner=True)
    system.module("app", module, needs_approval=True)
    job = system.run("app", "APPLY")
    waiting(system, job)
    system.api.post(f"/jobs/{segment(job)}/decline", {"plan": 1, "reason": "not on a Friday"})
    ended = system.wait(job)
    assert (ended["status"], outcomes(ended)) == ("DECLINED", ["waiting"])
    assert "not on a Friday" in ended["message"]
    assert words(witness) == []


@pytest.mark.feature("J15.kept", "O3.requeued", "O4.adopted")
def test_an_engine_that_outlives_runner_and_executor_finishes_and_its_state_is_delivered_by_the_next_runner(
    system: System, tmp_path: Path, witness: Path
) -> None:
    gate = tmp_path / "gate"
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    system.module("app", modules.gated_apply(str(witness), str(gate)))
    job = system.run("app", "APPLY")
    eventually(lambda: words(witness) == ["begin"], what="the apply")
    executor = system.executor(job)
    runner.kill()
    os.kill(executor, signal.SIGKILL)
    system.start_runner(credentials)
    eventually(lambda: (system.directory / "runner-one.log").read_text().count("connected to") >= 2, what="the runner")
    assert system.status(job) == "PROCESSING", "while the engine lives, nobody else may have the job"
    gate.touch()
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert outcomes(ended) == ["gone", "succeeded"]
    assert words(witness) == ["begin", "end"], "what was applied once is not applied again"
    states = list(system.api.list("/modules/app/states"))
    assert any(state["origin"] == "errored" for state in states), states
    assert {resource["name"] for resource in system.state("app")["resources"]} == {"first", "slow"}
