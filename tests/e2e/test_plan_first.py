"""A person looks at the plan of a PLAN and applies exactly this plan: the whole system, with the real engine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.client.address import segment
from terracrew.errors import Conflict, Invalid
from tests.e2e.approvals import waiting
from tests.e2e.command_line import terracrew
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240), pytest.mark.feature("J8.plan-first")]

HERE = """
variable "size" { default = 1 }
resource "terraform_data" "here" {
  input = "${path.cwd} ${var.size}"
  provisioner "local-exec" { command = "echo ${var.size} >> WITNESS" }
}
output "here" { value = terraform_data.here.output }
"""


def words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


def apply(system: System, job: str, **asked: Any) -> str:
    return system.api.post(f"/jobs/{segment(job)}/apply", asked)["id"]


def planned(system: System, *, is_destroy: bool = False) -> str:
    body = {"type": "PLAN", "is_destroy_plan": is_destroy}
    job = system.api.post(f"/modules/{segment('app')}/jobs", body)["id"]
    ended = system.wait(job)
    assert (ended["status"], ended["is_plan_applicable"]) == ("SUCCEEDED", True), system.log(job)
    return job


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


@pytest.fixture
def running(system: System, witness: Path) -> System:
    system.start_server(runner=True)
    system.module("app", HERE.replace("WITNESS", str(witness)))
    return system


def test_what_was_planned_is_applied_and_destroyed_as_it_was_shown(running: System, witness: Path) -> None:
    system, first = running, planned(running)
    job = apply(system, first)
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert (ended["type"], ended["plan_job_id"], [each["outcome"] for each in ended["attempts"]]) == (
        "APPLY",
        first,
        ["succeeded"],
    )
    assert system.state("app")["outputs"]["here"]["value"].endswith(f"/{first}.1 1"), "at the path where it was planned"
    assert words(witness) == ["1"]
    assert apply(system, first) == job, "the request was repeated"
    assert words(witness) == ["1"]
    destroy = planned(system, is_destroy=True)
    with pytest.raises(Invalid):
        apply(system, destroy)
    gone = system.wait(apply(system, destroy, is_destroy=True))
    assert (gone["status"], gone["type"]) == ("SUCCEEDED", "DESTROY"), system.log(gone["id"])
    assert system.state("app")["resources"] == []


def test_a_plan_is_refused_when_something_has_changed_since(running: System, witness: Path) -> None:
    system, first = running, planned(running)
    set_size(system, 2)
    with pytest.raises(Conflict, match="an input, a hook, a flag or another setting of the module has changed"):
        apply(system, first)
    second, third = planned(system), planned(system)
    assert system.wait(apply(system, second))["status"] == "SUCCEEDED"
    with pytest.raises(Conflict, match="the state of the module has changed"):
        apply(system, third)
    assert system.job(third)["plan_problem"].startswith("the state of the module has changed")
    assert words(witness) == ["2"]


def test_if_something_changes_after_the_request_the_new_plan_waits_for_a_person(system: System, witness: Path) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    system.module("app", HERE.replace("WITNESS", str(witness)))
    first = planned(system)
    runner.kill()
    job = apply(system, first)
    set_size(system, 3)
    system.start_runner(credentials)
    found = waiting(system, job)
    assert words(witness) == []
    assert "an earlier plan of this job" in found["kept_plan"]["why"]


def test_the_command_line_shows_the_plan_and_applies_it(running: System, witness: Path) -> None:
    system, first = running, planned(running)
    number = system.job(first)["number"]
    assert f"terracrew job apply {number}" in terracrew(system, "job", "show", str(number))
    said = terracrew(system, "job", "apply", str(number), "--yes", "--follow")
    assert "terraform_data.here" in said
    assert "Apply complete!" in said
    assert words(witness) == ["1"]
    assert "has taken this plan already" in terracrew(
        system, "job", "apply", str(number), "--yes", code=Conflict.exit_code
    )


def set_size(system: System, size: int) -> None:
    system.api.post("/inputs", {"place": "app", "name": "size", "value": size})


def test_a_group_is_planned_and_what_was_seen_is_applied(system: System, tmp_path: Path) -> None:
    system.start_server(runner=True)
    system.api.post("/groups", {"path": "shop"})
    for name in ("one", "two"):
        system.module(f"shop/{name}", HERE.replace("WITNESS", str(tmp_path / name)))
    said = terracrew(system, "group", "plan", "shop")
    assert "1 to add, 0 to change, 0 to destroy" in said
    assert "terracrew group apply shop --planned" in said
    assert not (tmp_path / "one").exists()
    applied = terracrew(system, "group", "apply", "shop", "--planned", "--json")
    for each in msgspec.json.decode(applied):
        assert system.wait(each["job_id"])["status"] == "SUCCEEDED", system.log(each["job_id"])
    assert (words(tmp_path / "one"), words(tmp_path / "two")) == (["1"], ["1"])
