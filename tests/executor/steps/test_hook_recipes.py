"""The recipes of docs/hooks.md that need no other program, and where the others run."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.feature("H1.plan")
DOCS = (Path(__file__).parents[3] / "docs" / "hooks.md").read_text()


def block(language: str, word: str) -> str:
    """The block of the page that has this word."""
    return next(text for text in re.findall(rf"```{language}\n(.*?)```", DOCS, re.DOTALL) if word in text)


@pytest.mark.parametrize(
    ("document", "refused"),
    [
        ({"format_version": "1.2"}, ""),
        ({"format_version": "1.2", "resource_changes": [{"address": "a.b", "change": {"actions": ["create"]}}]}, ""),
        (
            {"format_version": "1.2", "resource_changes": [{"address": "a.b", "change": {"actions": ["delete"]}}]},
            "this plan destroys a.b",
        ),
        ({"steps": [{"op": "delete"}], "changeSummary": {"delete": 1}}, "this is not a plan of OpenTofu or Terraform"),
    ],
)
def test_the_check_in_python_refuses_what_destroys_and_what_it_does_not_know(
    tmp_path: Path, document: dict[str, Any], refused: str
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(document))
    script, variables = block("python", "resource_changes"), {"TERRACREW_PLAN_JSON": str(plan)}
    done = subprocess.run([sys.executable, "-c", script], env=variables, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.strip()) == (1 if refused else 0, refused)


@pytest.mark.parametrize("name", ["opa eval", "conftest test", "infracost diff"])
def test_a_program_does_not_run_in_the_folder_of_the_module(tmp_path: Path, name: str) -> None:
    """With `no-fail = true` in its `conftest.toml`, a module would have passed the check of its group."""
    module, programs = tmp_path / "module", tmp_path / "bin"
    module.mkdir()
    programs.mkdir()
    program = programs / name.split()[0]
    program.write_text("#!/bin/sh\npwd\n")
    program.chmod(0o755)
    variables = {"PATH": f"{programs}:/usr/bin:/bin", "TERRACREW_PLAN_JSON": "/plan.json"}
    script = block("sh", name)
    done = subprocess.run(["sh", "-c", script], cwd=module, env=variables, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["/"]
