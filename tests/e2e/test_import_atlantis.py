"""`terracrew import atlantis` makes modules that the server accepts, with their hooks and flags, and makes them once."""

import json
import subprocess
from typing import Any

import pytest

from tests.e2e.command_line import terracrew
from tests.e2e.system import System

pytestmark = [pytest.mark.timeout(120), pytest.mark.feature("P6.atlantis")]

FILE = """
version: 3
projects:
- dir: network
  apply_requirements: [approved]
  terraform_distribution: opentofu
- dir: shop
  workspace: prod
  workflow: checked
  autoplan: {when_modified: ["*.tf", "../modules/**"]}
- {dir: legacy, workflow: replaced}
workflows:
  checked:
    plan:
      steps:
      - env: {name: STAGE, value: prod}
      - init
      - plan: {extra_args: [-parallelism=5]}
      - run: ./check.sh
  replaced: {plan: {steps: [{run: terragrunt plan}]}}
"""


def test_projects_become_modules_once(system: System) -> None:
    system.start_server(runner=False)
    folder = system.directory / "infra"
    folder.mkdir()
    for words in (["init", "-q"], ["remote", "add", "origin", "git@git.example.com:acme/infra.git"]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    (folder / "atlantis.yaml").write_text(FILE)
    words = ["import", "atlantis", str(folder / "atlantis.yaml"), "--yes", "--json"]
    made = json.loads(terracrew(system, *words))
    assert [(each["path"], each["action"]) for each in made["modules"]] == [
        ("infra/network", "create"),
        ("infra/shop-prod", "create"),
        ("infra/legacy", "refused"),
    ]
    assert [each["failures"] for each in made["outcomes"]] == [[]] * 3
    network = system.api.get("/modules/infra%2Fnetwork")
    assert (network["engine"], network["backend"], network["needs_approval"]) == ("tofu", "own", True)
    assert (network["source"]["url"], network["source"]["subdirectory"]) == (
        "git@git.example.com:acme/infra.git",
        "network",
    )
    shop = system.api.get("/modules/infra%2Fshop-prod")
    assert shop["environment"] == {"STAGE": "prod", "TF_WORKSPACE": "prod"}
    assert shop["watch"] == ["/shop/*.tf", "/modules/**"]
    [step] = system.api.get("/modules/infra%2Fshop-prod/steps")
    plan: dict[str, Any] = {"step": "plan", "flags": {"terraform": ["-parallelism=5"]}}
    assert plan.items() <= step.items()
    assert step["after"]["script"] == "#!/bin/sh\nset -e\n./check.sh\n"
    system.api.delete("/modules/infra%2Fshop-prod/steps/plan")
    again = json.loads(terracrew(system, *words))
    assert [each["action"] for each in again["modules"]] == ["exists", "complete", "refused"]
    assert [each["made"] for each in again["outcomes"]] == [["step plan"]]
    assert not json.loads(terracrew(system, *words))["is_executed"]
