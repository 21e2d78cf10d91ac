"""What a plan of the real engine says that it would do, in counts."""

import os
import subprocess
from pathlib import Path

import pytest

from terracrew.cli.printing import output
from terracrew.executor.engines import plan_summary
from terracrew.executor.engines.hcl import shown_facts, state

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


def test_imports_moves_and_what_is_forgotten_are_counted(tofu: str, tmp_path: Path) -> None:
    """A plan that only imports or moves was shown as "0 to add, 0 to change, 0 to destroy"."""

    # A warning about a missing configuration is printed before the description of the plan.
    environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(tmp_path / "missing")}

    def run(*words: str) -> bytes:
        return subprocess.run([tofu, *words], cwd=tmp_path, check=True, capture_output=True, env=environment).stdout

    (tmp_path / "main.tf").write_text(BEFORE)
    run("init")
    run("apply", "-auto-approve")
    (tmp_path / "main.tf").write_text(AFTER)
    run("plan", "-out=plan")
    summary = plan_summary.summarize(
        shown_facts.read(run("show", "-json", "plan")), state.count((tmp_path / "terraform.tfstate").read_bytes())
    )
    counts = {"imports": summary.imports, "moves": summary.moves, "forgets": summary.forgets}
    assert counts == {"imports": 1, "moves": 1, "forgets": 1}
    assert (summary.add, summary.change, summary.destroy) == (0, 0, 0)
    words = output.plan({"add": 0, "change": 0, "destroy": 0, **counts})
    assert words == "1 to import, 0 to add, 0 to change, 0 to destroy, 1 to forget (1 moved)"
