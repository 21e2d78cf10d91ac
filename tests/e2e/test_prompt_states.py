"""Modules whose plans run at the prompt: the state and its lock are here, and everything else is on the machine of a person."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from tests.e2e.prompt import Prompt
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
MAIN = """
variable "size" { default = 1 }
resource "terraform_data" "here" { input = var.size }
output "here" { value = terraform_data.here.output }
output "hidden" {
  value     = { key = "of the house" }
  sensitive = true
}
"""
SLOW = """
resource "terraform_data" "first" { input = 1 }
resource "terraform_data" "slow" {
  depends_on = [terraform_data.first]
  provisioner "local-exec" { command = "touch STARTED; sleep 60" }
}
"""


@pytest.fixture
def prompt(system: System, tofu: str, tmp_path: Path) -> Prompt:
    system.start_server(runner=False)
    system.api.post(
        "/modules", {"path": "app", "source": {"kind": "archive", "archive_id": ""}, "command_line": "terminal"}
    )
    found = Prompt(system, tofu, tmp_path / "ann")
    found.write(MAIN)
    found.succeed("init")
    return found


@pytest.mark.feature("K3")
def test_a_local_run_keeps_its_state_and_its_lock_here(prompt: Prompt, system: System) -> None:
    assert "Apply complete! Resources: 1 added" in prompt.succeed("apply", "-auto-approve")
    assert system.state("app")["outputs"]["here"]["value"] == 1
    assert prompt.outputs() == {"here": 1, "hidden": {"key": "of the house"}}
    assert "No changes" in prompt.succeed("plan")
    assert prompt.succeed("state", "list").split() == ["terraform_data.here"]
    prompt.succeed("state", "mv", "terraform_data.here", "terraform_data.there")
    pulled = json.loads(prompt.succeed("state", "pull"))
    assert pulled["resources"][0]["name"] == "there"
    (prompt.directory / "pushed.tfstate").write_text(json.dumps(pulled | {"serial": pulled["serial"] + 1}))
    prompt.succeed("state", "push", "pushed.tfstate")
    assert system.state("app")["serial"] > pulled["serial"], "the engine gives a pushed state the next serial"
    prompt.succeed("state", "rm", "terraform_data.there")
    assert system.state("app")["resources"] == []
    assert system.api.get("/modules/app")["lock"] is None


@pytest.mark.feature("K3.lock")
def test_two_terminals_and_a_killed_one(prompt: Prompt, system: System, tofu: str, tmp_path: Path) -> None:
    started = tmp_path / "started"
    prompt.write(SLOW.replace("STARTED", str(started)))
    process = prompt.start("apply", "-auto-approve")
    eventually(started.exists, what="the start of the provisioner")
    other = Prompt(system, tofu, tmp_path / "bob")
    other.write(MAIN)
    other.succeed("init")
    refused = other.run("apply", "-auto-approve")
    assert refused.code == 1
    assert "lock" in refused.text
    process.send_signal(signal.SIGKILL)
    process.communicate()
    other.succeed("force-unlock", "-force", "default/app")
    assert other.run("force-unlock", "-force", "default/app").code == 1
    assert "Plan:" in other.succeed("plan")


@pytest.mark.feature("K3")
def test_a_state_moves_in_and_out_again_as_the_docs_say(prompt: Prompt, system: System) -> None:
    here = prompt.directory / "terraform.tfstate"
    prompt.succeed("apply", "-auto-approve")
    here.write_text(prompt.succeed("state", "pull"))
    shutil.rmtree(prompt.directory / ".terraform")
    (prompt.directory / "main.tf").write_text(MAIN)
    prompt.succeed("init")
    assert "No changes" in prompt.succeed("plan")
    source = {"kind": "archive", "archive_id": ""}
    system.api.post("/modules", {"path": "moved", "source": source, "command_line": "terminal"})
    prompt.write(MAIN, workspace="moved")
    prompt.succeed("init", answer="yes\n")
    assert "No changes" in prompt.succeed("plan")
    assert system.state("moved")["outputs"]["here"]["value"] == 1
