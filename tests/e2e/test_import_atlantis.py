"""`terracrew import atlantis` makes modules that the server accepts, with their hooks and flags, and makes them once."""

import json
import os
import subprocess
from typing import Any

import pytest

from tests.e2e.command_line import terracrew
from tests.e2e.system import System
from tests.machine import git_https
from tests.machine.repositories import Repository
from tests.thoroughness import thorough

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

ESTATE = """
terraform {{
  backend "local" {{
    path          = "{states}/main.tfstate"
    workspace_dir = "{states}"
  }}
}}
variable "size" {{ default = 1 }}
resource "terraform_data" "each" {{
  count = var.size
  input = terraform.workspace
}}
"""
PROJECTS = """
version: 3
projects:
- {name: network, dir: live/network, terraform_distribution: opentofu, workflow: sized}
- {name: network-blue, dir: live/network, workspace: blue, terraform_distribution: opentofu, workflow: sized}
workflows:
  sized:
    plan:
      steps: [{env: {name: TF_VAR_size, value: "3"}}, init, {run: "echo before $WORKSPACE"}, {plan: {extra_args: ["-parallelism", "5"]}}]
"""


@thorough
@pytest.mark.engine
@pytest.mark.feature("P6.no-changes")
def test_projects_that_were_applied_before_have_nothing_to_change(system: System, tofu: str) -> None:
    with git_https.running(system.directory / "served") as server:
        repository, states = Repository(server.root / "infra"), system.directory / "states"
        folder = repository.folder / "live" / "network"
        folder.mkdir(parents=True)
        states.mkdir()
        (folder / "main.tf").write_text(ESTATE.format(states=states))
        (repository.folder / "atlantis.yaml").write_text(PROJECTS)
        repository.commit("begin")
        repository.git("remote", "add", "origin", server.of("infra"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        apply = ["apply", "-auto-approve", "-var", "size=3"]
        for words in (["init"], apply, ["workspace", "new", "blue"], apply, ["workspace", "select", "default"]):
            subprocess.run([tofu, *words], cwd=folder, check=True, capture_output=True, env=environment)
        system.env |= server.environment
        system.start_server(runner=True)
        terracrew(system, "import", "atlantis", str(repository.folder / "atlantis.yaml"), "--yes")
        for path, workspace in (("infra/network", "default"), ("infra/network-blue", "blue")):
            job = system.wait(system.run(path))
            assert job["status"] == "SUCCEEDED", system.log(job["id"])
            assert {name: job["plan"][name] for name in ("add", "change", "destroy")} == {
                "add": 0,
                "change": 0,
                "destroy": 0,
            }
            assert f"before {workspace}" in system.log(job["id"])


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
