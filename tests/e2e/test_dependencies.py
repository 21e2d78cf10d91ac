"""Modules that use each other's outputs, with the real engine: a change goes on by itself, and a group is applied in order."""

import json

import pytest

from tests.e2e.command_line import terracrew
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]
USES = 'variable "{name}" {{ type = string }}\noutput "id" {{ value = "{own}-${{var.{name}}}" }}\n'


def _refer(system: System, user: str, source: str, name: str) -> None:
    system.api.post("/inputs", {"place": user, "name": name, "output": {"module": source, "output": "id"}})


def _outputs(system: System, module: str) -> object:
    found = system.api.get(f"/modules/{module.replace('/', '%2F')}/outputs")["outputs"]
    return found["id"]["value"] if "id" in found else None


@pytest.mark.feature("J6.triggers")
def test_a_changed_output_goes_on_to_the_module_that_uses_it_once(system: System) -> None:
    system.start_server(runner=True)
    system.module("a", 'variable "v" { type = string }\noutput "id" { value = var.v }', inputs={"v": "1"})
    system.module("b", USES.format(name="a", own="b"), triggers="auto")
    _refer(system, "b", "a", "a")
    for value in ("1", "2"):
        system.api.patch("/modules/a", {"inputs": {"v": value}})
        assert system.wait(system.run("a", "APPLY"))["status"] == "SUCCEEDED"
        eventually(lambda value=value: _outputs(system, "b") == f"b-{value}" or None, what="the apply of b")
    jobs = system.api.get("/jobs", module="b")["items"]
    assert [(job["type"], job["status"]) for job in jobs] == [("APPLY", "SUCCEEDED")] * 2, "once for each change"


@pytest.mark.feature("J6.groups", "E1.progress")
def test_a_group_is_applied_in_order_and_resumed_after_a_failure(system: System) -> None:
    system.start_server(runner=True)
    system.module("team/a", 'output "id" { value = "a" }')
    system.module("team/b", USES.format(name="a", own="b") + 'output "bad" { value = file("missing.txt") }')
    system.module("team/c", USES.format(name="b", own="c"))
    _refer(system, "team/b", "team/a", "a")
    _refer(system, "team/c", "team/b", "b")
    failed = json.loads(terracrew(system, "group", "apply", "team", "--json", code=10))
    found = {each["path"]: each for each in failed["modules"]}
    assert [found[f"team/{name}"]["status"] for name in "abc"] == ["SUCCEEDED", "FAILED", "SKIPPED"]
    system.api.post("/inputs", {"place": "team/b", "target": "file", "name": "missing.txt", "value": "now it is there"})
    out = terracrew(system, "group", "apply", "team", "--resume")
    assert "APPLY of team: SUCCEEDED" in out
    assert "[3/3] team/c: SUCCEEDED" in out
    assert _outputs(system, "team/c") == "c-b-a"
    assert [len(system.api.get("/jobs", module=f"team/{name}")["items"]) for name in "abc"] == [1, 2, 1]
    destroyed = json.loads(terracrew(system, "group", "destroy", "team", "--yes", "--json"))
    assert [each["path"] for each in destroyed["modules"]] == ["team/c", "team/b", "team/a"]
