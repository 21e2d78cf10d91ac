"""`tofu show` of a plan that was saved at a prompt: with its schemas, and without what is sensitive."""

import json
from pathlib import Path

import pytest

from tests.e2e.prompt import Prompt
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
SECRET = "hunter2-of-ann"
MAIN = """
variable "password" {
  type      = string
  sensitive = true
}
variable "size" {
  type    = number
  default = 1
}
resource "terraform_data" "here" { input = var.size }
resource "terraform_data" "secret" { input = { name = "db", login = { password = var.password } } }
resource "terraform_data" "whole" {
  input            = sensitive([var.size, "list-secret-${var.size}"])
  triggers_replace = sensitive({ key = "map-secret-${var.size}" })
}
output "here" { value = terraform_data.here.output }
output "password" {
  value     = var.password
  sensitive = true
}
"""


@pytest.fixture
def prompt(system: System, tofu: str, tmp_path: Path) -> Prompt:
    system.start_server(runner=True)
    found = Prompt(system, tofu, tmp_path / "ann")
    found.write(MAIN)
    found.succeed("init")
    return found


@pytest.mark.feature("K2.show")
def test_a_saved_plan_is_shown_without_what_is_sensitive_and_then_applied(prompt: Prompt, system: System) -> None:
    first = ("-var", f"password={SECRET}")
    prompt.succeed("plan", "-out", "first.plan", *first)
    shown = prompt.succeed("show", "first.plan")
    assert "Plan: 3 to add, 0 to change, 0 to destroy." in shown
    assert "+ input  = 1" in shown
    assert "(sensitive value)" in shown
    assert SECRET not in shown
    document = json.loads(prompt.succeed("show", "-json", "first.plan"))
    changes = {each["address"]: each["change"]["after"] for each in document["resource_changes"]}
    assert changes["terraform_data.here"]["input"] == 1
    assert changes["terraform_data.secret"]["input"]["name"] == "db"
    assert not [secret for secret in (SECRET, "list-secret", "map-secret") if secret in json.dumps(document)]
    assert "Apply complete! Resources: 3 added" in prompt.succeed("apply", "first.plan")
    assert system.state("app")["outputs"]["password"]["value"] == SECRET

    prompt.succeed("plan", "-out", "second.plan", "-var", f"password={SECRET}-new", "-var", "size=2")
    shown = prompt.succeed("show", "second.plan")
    assert "~ input  = 1 -> 2" in shown
    assert "~ password = (sensitive value)" in shown
    assert "Plan: 1 to add, 2 to change, 1 to destroy." in shown
    assert not [secret for secret in (SECRET, "list-secret", "map-secret") if secret in shown]

    whole = prompt.succeed("show", "-json", "second.plan")
    assert {"prior_state", "planned_values", "variables"} <= json.loads(whole).keys()
    assert not [secret for secret in (SECRET, "list-secret", "map-secret") if secret in whole]

    without_changes = prompt.succeed("plan", "-out", "third.plan", *first)
    assert "No changes" in without_changes
    assert "No changes" in prompt.succeed("show", "third.plan")
