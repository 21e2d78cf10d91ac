"""What a plan of the real engine says that it would do, in counts."""

import os
import subprocess
from pathlib import Path

import pytest

from terracrew.cli.printing import output
from terracrew.executor.engines import plan_summary
from terracrew.executor.engines.hcl import shown_plan, state
from terracrew.plan_diff import resources
from terracrew.protocol.events import FailedCheck, PlanSummary
from terracrew.wording import plan_words

pytestmark = pytest.mark.feature("J11.numbers", "J11.resources")
BEFORE = """
resource "terraform_data" "old" { input = 1 }
resource "terraform_data" "dropped" { input = 2 }
"""
AFTER = """
resource "terraform_data" "new" { input = 1 }
moved {
  from = terraform_data.old
  to   = terraform_data.new
}
removed {
  from = terraform_data.dropped
  lifecycle { destroy = false }
}
resource "terraform_data" "found" {}
import {
  to = terraform_data.found
  id = "somewhere"
}
"""


def described(tofu: str, folder: Path, before: str, after: str) -> bytes:
    """Apply a configuration, and return the description of a plan for another one."""

    # A warning about a missing configuration is printed before the description of the plan.
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(folder / "missing")}

    def run(*words: str) -> bytes:
        return subprocess.run([tofu, *words], cwd=folder, check=True, capture_output=True, env=environment).stdout

    (folder / "main.tf").write_text(before)
    run("init")
    run("apply", "-auto-approve")
    (folder / "main.tf").write_text(after)
    run("plan", "-out=plan")
    return run("show", "-json", "plan")


def summarized(printed: bytes, folder: Path) -> PlanSummary:
    resources = state.count((folder / "terraform.tfstate").read_bytes())
    return plan_summary.summarize(shown_plan.facts(printed), resources)


def test_imports_moves_and_what_is_forgotten_are_counted(tofu: str, tmp_path: Path) -> None:
    """A plan that only imports or moves was shown as "0 to add, 0 to change, 0 to destroy"."""
    printed = described(tofu, tmp_path, BEFORE, AFTER)
    summary = summarized(printed, tmp_path)
    counts = {"imports": summary.imports, "moves": summary.moves, "forgets": summary.forgets}
    assert counts == {"imports": 1, "moves": 1, "forgets": 1}
    assert (summary.add, summary.change, summary.destroy) == (0, 0, 0)
    words = output.plan(summary)
    assert words == "1 to import, 0 to add, 0 to change, 0 to destroy, 1 to forget (1 moved)"
    details = {each.address: each.detail for each in summary.resources}
    assert details["terraform_data.dropped"] == "no longer managed, not destroyed", "it said: destroyed because"
    shown = {each.address: each for each in shown_plan.description(printed).resources}["terraform_data.dropped"]
    assert resources.sentence(shown, lambda text: text) == "It is no longer managed, and not destroyed."


def test_what_is_replaced_and_not_destroyed_is_created_and_forgotten(tofu: str, tmp_path: Path) -> None:
    """OpenTofu said "1 to add, 1 to forget"; the summary had no change at all."""
    kept = 'resource "terraform_data" "kept" {\n  triggers_replace = "%s"\n  lifecycle { destroy = false }\n}\n'
    printed = described(tofu, tmp_path, kept % "a", kept % "b")
    summary = summarized(printed, tmp_path)
    assert (summary.add, summary.forgets, summary.replace, summary.destroy) == (1, 1, 0, 0)
    assert summary.existing == 1
    planned = {each.action: each.read_values() for each in shown_plan.description(printed).resources}
    assert planned["forget"].before["triggers_replace"] == "a"
    assert planned["forget"].after is None
    assert planned["create"].before is None
    assert planned["create"].after["triggers_replace"] == "b"


def test_checks_that_failed_are_part_of_the_summary(tofu: str, tmp_path: Path) -> None:
    """They were only in the log: a plan that somebody approved did not show them."""
    check = """
    variable "size" { default = 5 }
    resource "terraform_data" "one" {
      input = %d
      lifecycle {
        postcondition {
          condition     = self.input > 0
          error_message = "too small"
        }
      }
    }
    check "health" {
      assert {
        condition     = terraform_data.one.input < 3
        error_message = "it is ${terraform_data.one.input}"
      }
      assert {
        condition     = var.size < 3
        error_message = "the size is ${var.size}"
      }
    }
    check "fine" {
      assert {
        condition     = var.size == 5
        error_message = "never"
      }
    }
    """
    summary = summarized(described(tofu, tmp_path, check % 1, check % 7), tmp_path)
    assert summary.checks == [
        FailedCheck("check.health", "it is 7"),
        FailedCheck("check.health", "the size is 5"),
    ]
    words = plan_words.counts(summary)
    assert words == "0 to add, 1 to change, 0 to destroy, 2 checks failed"
