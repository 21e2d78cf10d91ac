"""A module with a backend of its own: what this backend did not take is not taken for saved (rule 9)."""

import io
import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from terracrew.errors import Conflict
from terracrew.source_rules import archive
from tests.e2e import state_server
from tests.e2e.state_server import StateServer
from tests.e2e.system import System, eventually

SHOP = """
resource "terraform_data" "paid" {
  input = "a database"
  provisioner "local-exec" { command = "echo bought >> %s" }
}
"""
MANY = """
variable "n" { type = number }
variable "input" { default = "a" }
resource "terraform_data" "each" {
  count            = var.n
  triggers_replace = var.input
}
"""
SLOW = """
resource "terraform_data" "slow" {
  input = terraform_data.paid.output
  provisioner "local-exec" { command = "echo waiting >> %s; until [ -f %s ]; do sleep 0.05; done" }
}
"""


@pytest.fixture
def backend() -> Generator[StateServer]:
    with state_server.running() as found:
        yield found


def _in_status(system: System, job: str, status: str) -> dict[str, Any]:
    return eventually(lambda: found if (found := system.job(job))["status"] == status else None, what=f"{job} {status}")


def _blocked(system: System, job: str) -> str:
    """Why a queued job cannot start before somebody has decided about a state."""

    def reason() -> str | None:
        found = system.job(job)
        assert found["status"] in ("QUEUED", "CLAIMED", "PROCESSING"), found["message"]
        why: dict[str, Any] = found.get("reason") or {}
        return why["text"] if why.get("code") == "quarantine" else None

    return eventually(reason, what="the reason")


def _push_and_discard(system: System, backend: StateServer) -> None:
    """What the message asks a person to do."""
    (state,) = [each for each in system.api.list("/modules/app/states") if each["status"] == "quarantined"]
    assert state["origin"] == "errored"
    with pytest.raises(Conflict, match="own backend did not accept it: push it there, and then discard it here"):
        system.api.post(f"/states/{state['id']}/adopt")
    content = io.BytesIO()
    system.api.download(f"/states/{state['id']}", content)
    backend.refuses, backend.state = False, content.getvalue()
    system.api.post(f"/states/{state['id']}/discard")


def _approve(system: System, waiting: dict[str, Any]) -> dict[str, Any]:
    seen = [{"job_id": each["job_id"], "attempt": each["attempt"]} for each in waiting["doubts"]]
    system.api.post(f"/jobs/{waiting['id']}/approve", {"plan": waiting["kept_plan"]["attempt"], "doubts": seen})
    return system.wait(waiting["id"])


@pytest.mark.feature("J15.own", "O3.doubt", "J15.kept")
@pytest.mark.timeout(120)
def test_a_state_that_the_modules_own_backend_refused_is_kept_for_a_person_and_never_current(
    system: System, backend: StateServer, tmp_path: Path
) -> None:
    """`bought bought`, nobody was asked, and the log said that the state was rescued."""
    bought = tmp_path / "shop"
    system.start_server(runner=True)
    system.module("app", backend.block + SHOP % bought, backend="own")
    backend.refuses = True
    first = system.wait(system.run("app", "APPLY"))
    assert first["status"] == "FAILED"
    module = system.api.get("/modules/app")
    assert [each["attempt"] for each in module["doubts"]] == [1]
    assert [each["status"] for each in system.api.list("/modules/app/states")] == ["quarantined"]
    assert "push it to that backend, and then discard it here" in system.log(first["id"])
    backend.refuses = False
    second = system.run("app", "APPLY")
    assert "push it there, and then discard it here" in _blocked(system, second)
    _push_and_discard(system, backend)
    ended = _approve(system, _in_status(system, second, "AWAITING_APPROVAL"))
    assert (ended["status"], bought.read_text().split()) == ("SUCCEEDED", ["bought"])


@pytest.mark.feature("J15.own", "O3.doubt", "O4.salvaged")
@pytest.mark.timeout(120)
def test_what_a_dead_executor_left_is_no_proof_that_the_modules_own_backend_has_it(
    system: System, backend: StateServer, tmp_path: Path
) -> None:
    """The engine went on alone, its backend refused the state, and attempt 2 applied everything again by itself."""
    bought, slow, gate = tmp_path / "shop", tmp_path / "slow", tmp_path / "gate"
    system.start_server(runner=True)
    system.module("app", backend.block + SHOP % bought + SLOW % (slow, gate), backend="own")
    job = system.run("app", "APPLY")
    eventually(slow.exists, what="the middle of the apply")
    backend.refuses = True
    os.kill(system.executor(job), signal.SIGKILL)
    gate.touch()
    assert "push it there, and then discard it here" in _blocked(system, job)
    _push_and_discard(system, backend)
    ended = _approve(system, _in_status(system, job, "AWAITING_APPROVAL"))
    assert (ended["status"], bought.read_text().split()) == ("SUCCEEDED", ["bought"])


def _change(system: System, main: str, **fields: Any) -> None:
    """Give the module another source, and other settings."""
    folder = system.directory / "source" / "app"
    (folder / "main.tf").write_text(main)
    uploaded = system.api.upload("/archives", archive.pack(folder), "application/gzip")
    system.api.patch("/modules/app", {"source": {"kind": "archive", "archive_id": uploaded["id"]}, **fields})


@pytest.mark.feature("J15.own", "J8.needed")
@pytest.mark.timeout(120)
def test_how_much_a_plan_destroys_is_not_compared_with_a_state_from_before_the_own_backend(
    system: System, backend: StateServer
) -> None:
    """`destroys 3 of 30`, SUCCEEDED, nobody was asked: 30 was the count of a state that Terracrew had kept long ago."""
    system.start_server(runner=True)
    system.module("app", MANY, inputs={"n": 30}, max_destroy_percent=20)
    assert system.wait(system.run("app", "APPLY"))["status"] == "SUCCEEDED"
    _change(system, backend.block + MANY, backend="own", inputs={"n": 4})
    first = system.wait(system.run("app", "APPLY"))
    assert (first["status"], first["plan"]["existing"]) == ("SUCCEEDED", None)
    system.api.patch("/modules/app", {"inputs": {"n": 1}})
    waiting = _in_status(system, system.run("app", "APPLY"), "AWAITING_APPROVAL")
    assert (waiting["plan"]["destroy"], waiting["plan"]["existing"]) == (3, 4)
    assert "the plan destroys 3 of 4 resources; more than 20 % of them need an approval" in waiting["reason"]["text"]


@pytest.mark.feature("J15.own", "J8.needed")
@pytest.mark.timeout(120)
def test_a_plan_that_did_not_refresh_what_exists_in_the_own_backend_is_asked_about(
    system: System, backend: StateServer
) -> None:
    """With `-refresh=false` nothing was counted, and a plan that replaced everything was 0 % of 0."""
    system.start_server(runner=True)
    fields: dict[str, Any] = {"backend": "own", "max_destroy_percent": 20}
    system.module("app", backend.block + MANY, inputs={"n": 2}, **fields)
    assert system.wait(system.run("app", "APPLY"))["status"] == "SUCCEEDED"
    system.api.replace("/modules/app/steps/plan", {"flags": {"tofu": ["-refresh=false"]}})
    system.api.patch("/modules/app", {"inputs": {"n": 2, "input": "b"}})
    waiting = _in_status(system, system.run("app", "APPLY"), "AWAITING_APPROVAL")
    assert (waiting["plan"]["replace"], waiting["plan"]["existing"]) == (2, 2)
    assert "2 of 2 resources; more than 20 % of them need an approval" in waiting["reason"]["text"]
