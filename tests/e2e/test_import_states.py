"""`terracrew import state` makes modules of folders that bare OpenTofu has run: their first plans find nothing to change."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command_line import terracrew
from tests.e2e.system import System, eventually
from tests.machine.forks import process

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180), pytest.mark.feature("P6.states")]

ESTATE = """
terraform {
  backend "local" {}
}
resource "terraform_data" "each" {
  for_each = toset(["a", "b", "c"])
  input    = "${terraform.workspace} ${each.key}"
}
"""
NOTHING = {"add": 0, "change": 0, "destroy": 0, "replace": 0}


def bare(tofu: str, folder: Path, *words: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    subprocess.run([tofu, *words], cwd=folder, check=True, capture_output=True, env=environment)


def estate(tofu: str, folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text(ESTATE)
    bare(tofu, folder, "init")
    bare(tofu, folder, "apply", "-auto-approve")


def state(lineage: str, serial: int = 1, **more: Any) -> str:
    empty: dict[str, Any] = {"version": 4, "terraform_version": "1.10.0", "outputs": {}, "resources": []}
    return json.dumps(empty | {"lineage": lineage, "serial": serial} | more)


def folders(top: Path, count: int) -> None:
    """Folders with a state each, in a checkout of a repository."""
    top.mkdir()
    for words in (["init", "-q", "-b", "main"], ["remote", "add", "origin", "https://git.example.com/acme/live.git"]):
        subprocess.run(["git", *words], cwd=top, check=True)
    for number in range(count):
        folder = top / f"Stack_{number:02}"
        folder.mkdir(parents=True)
        (folder / "main.tf").write_text("")
        (folder / "terraform.tfstate").write_text(state(f"lineage-{number}"))


@pytest.mark.feature("P6.no-changes")
def test_folders_with_their_states_move_in_and_nothing_is_to_change(system: System, tofu: str) -> None:
    system.start_server(runner=True)
    top = system.directory / "live"
    estate(tofu, top / "shop" / "Prod_1")
    words = ["import", "state", str(top), "--into", "moved", "--source", "archive"]
    shown = terracrew(system, *words, "--plan")
    assert "moved/shop/prod-1" in shown
    assert "Nothing was changed." in shown
    assert system.api.get("/groups")["items"] == []
    terracrew(system, *words, "--yes")
    job = system.wait(system.run("moved/shop/prod-1"))
    assert job["status"] == "SUCCEEDED", system.log(job["id"])
    assert {name: job["plan"][name] for name in NOTHING} == NOTHING
    assert system.api.get("/modules/moved%2Fshop%2Fprod-1")["lock"] is None
    again = json.loads(terracrew(system, *words, "--yes", "--json"))
    assert [each["action"] for each in again["modules"]] == ["exists"]
    assert not again["is_executed"]


@pytest.mark.feature("P6.resumed")
def test_an_import_that_is_killed_is_continued(system: System) -> None:
    """A module without its state would let an apply create everything again: it is locked from its creation on."""
    system.start_server(runner=False)
    top = system.directory / "live"
    folders(top, 25)
    words = ["--url", system.url, "--token-file", str(system.data / "admin.token")]
    words += ["import", "state", str(top), "--into", "moved", "--yes"]
    running = system.start("import", words, system.env)
    eventually(lambda: len(system.api.get("/modules", limit=100)["items"]) >= 5, what="some modules")
    running.kill()
    half = system.api.get("/modules", limit=100)["items"]
    assert 5 <= len(half) < 25
    assert all(each["state_version"] or system.api.get(f"/modules/{each['id']}")["lock"] for each in half)
    ended, out, err = process.run(words, system.env)
    assert ended == 0, out + err
    after = system.api.get("/modules", limit=100)["items"]
    assert [each["state_version"] for each in after] == [1] * 25
    git = {"kind": "git", "url": "https://git.example.com/acme/live.git", "branch": "main", "subdirectory": "Stack_00"}
    assert git.items() <= after[0]["source"].items()
    assert [system.api.get(f"/modules/{each['id']}")["lock"] for each in after] == [None] * 25


def test_what_cannot_be_brought_is_said_and_the_rest_is_made(system: System) -> None:
    system.start_server(runner=False)
    top = system.directory / "live"
    folders(top, 2)
    refused = {
        "empty": ("", "is empty"),
        "sealed": (state("x", encrypted_data="eA=="), "is encrypted by OpenTofu"),
        "old": (state("x", version=3), "has format 3"),
        "wrong": ("<html>", "is not a state of OpenTofu or Terraform"),
        "Stack 00": (state("y"), "would all become moved/stack-00"),
        "stack 01": (state("lineage-1", 2), "would all become moved/stack-01"),
    }
    for name, (content, _) in refused.items():
        (top / name).mkdir()
        (top / name / "main.tf").write_text("")
        (top / name / "terraform.tfstate").write_text(content)
    (top / "bare").mkdir()
    (top / "bare" / "other.tfstate").write_text(state("z"))
    workspace = top / "empty" / "terraform.tfstate.d" / "eu-1"
    workspace.mkdir(parents=True)
    (workspace / "terraform.tfstate").write_text(state("eu"))
    (top / "empty" / ".terraform").mkdir()
    (top / "empty" / ".terraform" / "terraform.tfstate").write_text(state("pointer", version=3))
    words = ["import", "state", str(top), "--into", "moved", "--yes", "--json"]
    found = json.loads(terracrew(system, *words))
    reasons = {
        Path(each["from"]).parent.name: each["reason"] for each in found["modules"] if each["action"] == "refused"
    }
    for name, (_, words_of_it) in refused.items():
        assert words_of_it in reasons[name]
    assert "has a state and no configuration of tofu" in reasons["bare"]
    made = system.api.get("/modules")["items"]
    assert [each["path"] for each in made] == ["moved/empty-eu-1"]
    [eu] = [each for each in found["modules"] if each["action"] == "create"]
    assert "its state is that of the workspace eu-1" in eu["remarks"][0]


@pytest.mark.feature("P6.kept")
def test_no_module_and_no_state_of_somebody_else_is_touched(system: System) -> None:
    system.start_server(runner=False)
    top = system.directory / "live"
    folders(top, 3)
    words = ["import", "state", str(top), "--yes", "--json"]
    system.api.post("/modules", {"path": "stack-00", "source": {"kind": "archive", "archive_id": ""}})
    first = json.loads(terracrew(system, *words))
    assert "exists and does not come from this import" in first["modules"][0]["reason"]
    assert system.api.get("/modules/stack-00")["state_version"] == 0
    file = top / "Stack_01" / "terraform.tfstate"
    for serial, version in ((1, 1), (3, 2), (2, 2)):
        file.write_text(state("lineage-1", serial))
        terracrew(system, *words)
        assert system.api.get("/modules/stack-01")["state_version"] == version
    label = system.api.get("/modules/stack-02")["labels"]
    assert label == ["imported-from=state/lineage-2"]
