"""One true path through every process: a module is uploaded, planned, applied and destroyed by the real engine."""

import json

import pytest

from terracrew.executor.isolation import landlock
from tests.e2e import modules
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


@pytest.mark.feature(
    "C2.offers",
    "C3.executor",
    "J1.modules",
    "J11.numbers",
    "J11.resources",
    "J12.stored",
    "J14.persist",
    "J15.versions",
    "J3.order",
    "J3.steps",
    "J4.tofu",
    "L1.separate",
    "L4.finished",
    "R3.built-in",
    "S3.whole",
)
def test_a_module_is_planned_applied_and_destroyed(system: System) -> None:
    system.starts_real_commands = True
    server = system.start_server(runner=True)
    system.module("platform/hello", modules.quick())
    planned = system.wait(system.run("platform/hello"))
    assert planned["status"] == "SUCCEEDED", system.log(planned["id"])
    assert planned["plan"]["add"] == 1
    applied = system.wait(system.run("platform/hello", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    assert {step["name"]: step["status"] for step in applied["steps"]} == {
        **dict.fromkeys(("fetch", "inputs", "plan", "apply", "output"), "SUCCEEDED"),
        "init": "SKIPPED",
        "validate": "SKIPPED",
    }
    assert [step["kept_from"] for step in applied["steps"] if step["name"] == "init"] == [planned["number"]]
    assert len(applied["attempts"]) == 1, "the instance that claimed the job runs all of its steps"
    assert "Apply complete!" in system.log(applied["id"])
    assert "\x1b[" in system.log(applied["id"]), "colours as in a terminal"
    assert "Apply complete!" not in server.log.read_text(), "what a job prints is no diagnostic of its runner"
    assert [r["type"] for r in system.state("platform/hello")["resources"]] == ["terraform_data"]
    outputs = system.api.get("/modules/platform%2Fhello/outputs")
    assert outputs["outputs"]["greeting"]["value"] == "hello world"
    kept = system.data / "runner" / "outputs" / f"{applied['module_id']}.json"
    eventually(kept.exists, what="the outputs in the working directory of the runner")
    assert json.loads(kept.read_text())["outputs"]["greeting"] == "hello world"
    destroyed = system.wait(system.run("platform/hello", "DESTROY"))
    assert destroyed["status"] == "SUCCEEDED", system.log(destroyed["id"])
    assert system.state("platform/hello")["resources"] == []
    eventually(lambda: not kept.exists(), what="the removal of outputs that are gone")


@pytest.mark.feature("J3.order")
def test_a_plan_that_fails_is_shown_as_what_it_is(system: System) -> None:
    system.start_server(runner=True)
    system.module("broken", 'resource "terraform_data" "x" { input = var.nobody_declared_this }')
    ended = system.wait(system.run("broken"))
    assert ended["status"] == "FAILED"
    assert "undeclared" in system.log(ended["id"])
    assert "undeclared" in ended["message"].lower()


@pytest.mark.feature("J14.persist", "X4.isolation")
@pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock")
def test_a_module_cannot_read_the_outputs_that_its_runner_keeps_of_another_one(system: System) -> None:
    del system.env["TERRACREW_SERVER_RUNNER_WRITE_PATHS"]
    system.start_server(runner=True)
    system.module("one", modules.quick())
    applied = system.wait(system.run("one", "APPLY"))
    kept = system.data / "runner" / "outputs" / f"{applied['module_id']}.json"
    eventually(kept.exists, what="the outputs in the working directory of the runner")
    command = f"cat {kept} || ls {kept.parent} || echo REFUSED"
    system.module(
        "two", f'resource "terraform_data" "x" {{\n provisioner "local-exec" {{\n command = "{command}"\n }}\n}}'
    )
    spied = system.wait(system.run("two", "APPLY"))
    assert spied["status"] == "SUCCEEDED", system.log(spied["id"])
    assert "REFUSED" in system.log(spied["id"]).replace("|| echo REFUSED", "")
    assert "hello world" not in system.log(spied["id"])
