"""`tofu init`, `plan` and `apply` at a prompt, with the real command line, a real server and a real runner."""

import re
import signal
import time
from pathlib import Path

import pytest

from tests.e2e.prompt import Prompt, flat, plain
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
MAIN = """
variable "size" { default = 1 }
variable "names" {
  type    = map(list(string))
  default = {}
}
resource "terraform_data" "here" { input = var.size }
output "here" { value = terraform_data.here.output }
output "names" { value = var.names }
"""
SLOW = """
resource "terraform_data" "slow" {
  provisioner "local-exec" { command = "touch STARTED; sleep 60" }
}
"""


@pytest.fixture
def prompt(system: System, tofu: str, tmp_path: Path) -> Prompt:
    system.start_server(runner=True)
    found = Prompt(system, tofu, tmp_path / "ann")
    found.write(MAIN)
    assert "successfully initialized" in found.succeed("init")
    return found


@pytest.mark.feature("K2.apply", "K2.options")
def test_a_change_is_planned_and_applied_from_a_prompt(prompt: Prompt, system: System) -> None:
    planned = prompt.succeed("plan")
    assert "Plan: 1 to add, 0 to change, 0 to destroy." in planned
    applied = prompt.succeed("apply", answer="yes\n")
    assert "Apply complete! Resources: 1 added" in applied
    assert system.state("app")["outputs"]["here"]["value"] == 1
    again = prompt.succeed("apply", "-auto-approve", "-var", "size=2", "-var", 'names={ a = ["$${b}", "c\\"d"] }')
    assert "Apply complete! Resources: 0 added, 1 changed" in again
    assert system.state("app")["outputs"]["names"]["value"] == {"a": ["${b}", 'c"d']}
    assert "No changes" in prompt.succeed(
        "apply", "-auto-approve", "-var", "size=2", "-var", 'names={ a = ["$${b}", "c\\"d"] }'
    )
    refused = prompt.run("apply", answer="no\n")
    assert refused.code == 1
    assert "discarded" in refused.text
    gone = prompt.succeed("destroy", answer="yes\n")
    assert "Apply complete! Resources: 0 added, 0 changed, 1 destroyed" in gone
    assert system.state("app")["resources"] == []


@pytest.mark.feature("K2.saved")
def test_a_saved_plan_is_applied_once_and_only_while_it_is_current(prompt: Prompt, system: System) -> None:
    prompt.succeed("plan", "-out", "one.plan")
    prompt.succeed("plan", "-out", "two.plan")
    assert "Apply complete! Resources: 1 added" in prompt.succeed("apply", "one.plan")
    again = prompt.run("apply", "one.plan")
    assert again.code == 1
    assert "already applied" in again.text
    stale = prompt.run("apply", "two.plan")
    assert stale.code == 1
    assert "Saved plan is discarded" in stale.text


@pytest.mark.feature("K4")
def test_a_plan_that_fails_says_why_and_fails_the_command(prompt: Prompt) -> None:
    prompt.write('output "broken" { value = file("there-is-none") }')
    failed = prompt.run("plan")
    assert failed.code == 1
    assert "no file exists" in failed.text.lower()
    assert re.search(r"Job \d+ has failed", failed.text)


@pytest.mark.feature("K2.cancel")
def test_an_interrupt_cancels_the_run_and_frees_the_module(prompt: Prompt, system: System, tmp_path: Path) -> None:
    started = tmp_path / "started"
    prompt.write(SLOW.replace("STARTED", str(started)))
    process = prompt.start("apply", "-auto-approve")
    eventually(started.exists, what="the start of the provisioner")
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert "The remote operation was successfully cancelled" in text
    [job, *_] = system.api.get("/jobs")["items"]
    assert system.wait(job["id"])["status"] == "CANCELED"
    assert system.api.get("/modules/app")["lock"] is None


@pytest.mark.feature("K4")
def test_what_a_run_waits_for_is_told_at_the_prompt(system: System, tofu: str, tmp_path: Path) -> None:
    system.start_server(runner=False)
    prompt = Prompt(system, tofu, tmp_path / "ann")
    prompt.write(MAIN)
    prompt.succeed("init")
    process = prompt.start("plan")
    time.sleep(6)
    system.start_runner(system.register_runner())
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 0, text
    text = plain(text)
    assert "Plan: 1 to add" in text
    assert "runner" in text.partition("Source:")[0], text


@pytest.mark.feature("K5")
def test_a_long_log_is_read_in_few_requests(prompt: Prompt, system: System) -> None:
    """Each request brings 64 KB, and not the 4 KB that it brings if the headers leave with the body."""
    prompt.write(
        'output "it" { value = [for i in range(1000) : join("", [for j in range(50) : "${i} is one of many "])] }'
    )
    before = system.requests()
    text = prompt.succeed("plan")
    assert len(text) > 900_000
    assert system.requests() - before < 40 + len(text) / 60_000


@pytest.mark.feature("K2.words")
def test_bad_requests_get_words(prompt: Prompt, system: System) -> None:
    prompt.write(MAIN, workspace="Not_a.Path")
    assert "use lowercase letters, digits and hyphens" in flat(prompt.run("init").text)
    prompt.write(MAIN, workspace="nowhere.app")
    assert "create the group first" in flat(prompt.run("init").text)
    prompt.write(MAIN)
    prompt.token = "tcu_" + "x" * 43
    assert "unauthorized" in flat(prompt.run("init").text)
