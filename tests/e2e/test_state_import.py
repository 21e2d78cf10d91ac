"""An estate that bare OpenTofu made moves in with its state: the first plan finds nothing to change."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.e2e import state_server
from tests.e2e.command_line import terracrew
from tests.e2e.system import System

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180), pytest.mark.feature("J15.imported")]

ESTATE = """
variable "note" { default = "%s" }
resource "terraform_data" "each" {
  for_each = toset([for number in range(50) : tostring(number)])
  input    = "${var.note} ${each.key}"
}
output "count" { value = length(terraform_data.each) }
"""
NOTHING = {"add": 0, "change": 0, "destroy": 0, "replace": 0}


def bare(tofu: str, folder: Path, *words: str) -> str:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run(
        [tofu, *words], cwd=folder, check=True, capture_output=True, text=True, env=environment
    ).stdout


def estate(tofu: str, folder: Path, configuration: str) -> None:
    """Make 50 resources with the bare engine."""
    folder.mkdir()
    (folder / "main.tf").write_text(configuration)
    bare(tofu, folder, "init")
    bare(tofu, folder, "apply", "-auto-approve")


def planned(system: System, module: str) -> dict[str, int]:
    job = system.wait(system.run(module))
    assert job["status"] == "SUCCEEDED", system.log(job["id"])
    return {name: job["plan"][name] for name in NOTHING}


def test_a_state_of_fifty_resources_is_imported_and_the_plan_finds_no_changes(system: System, tofu: str) -> None:
    """There was no way to bring a state: an apply created all 50 resources again."""
    system.start_server(runner=True)
    folder = system.directory / "estate"
    estate(tofu, folder, ESTATE % "first")
    terracrew(system, "module", "create", "estate", "--engine", "tofu", "--from", str(folder))
    assert planned(system, "estate")["add"] == 50, "without its state"
    said = terracrew(system, "state", "import", "estate", str(folder / "terraform.tfstate"))
    assert "as version 1 of estate" in said
    assert planned(system, "estate") == NOTHING
    serial = json.loads((folder / "terraform.tfstate").read_text())["serial"]
    applied = system.wait(system.run("estate", "APPLY", inputs={"note": "second"}))
    assert applied["plan"]["change"] == 50
    state = system.state("estate")
    assert state["serial"] > serial, "the engine continued the state"
    assert system.api.get("/modules/estate/outputs")["outputs"]["count"]["value"] == 50
    last = system.api.get("/modules/estate")["state_version"]
    said = terracrew(system, "state", "rollback", "estate", "1", "--yes")
    assert f"restored version 1 as version {last + 1} of estate" in said
    assert "the plan finds nothing to change" in said, "the state and the default of the variable are the first again"


def test_the_backend_of_a_module_changes_together_with_its_state(system: System, tofu: str) -> None:
    """`module update --no-own-backend` said `updated`, and the next plan was `50 to add`."""
    system.start_server(runner=True)
    folder = system.directory / "estate"
    with state_server.running() as backend:
        estate(tofu, folder, backend.block + ESTATE % "first")
        terracrew(system, "module", "create", "estate", "--engine", "tofu", "--from", str(folder), "--own-backend")
        assert planned(system, "estate") == NOTHING
        state = system.directory / "state.json"
        state.write_text(bare(tofu, folder, "state", "pull"))
        (folder / "main.tf").write_text(ESTATE % "first")
        change = ["module", "update", "estate", "--no-own-backend", "--from", str(folder)]
        said = terracrew(system, *change, code=130)
        assert "so its next plan creates everything again" in said
        assert "terracrew state import estate state.json" in said
        assert system.api.get("/modules/estate")["backend"] == "own"
        wrong = system.directory / "wrong.json"
        wrong.write_text("{}")
        said = terracrew(system, *change, "--state", str(wrong), code=2)
        assert "is not a state of OpenTofu or Terraform" in said
        assert system.api.get("/modules/estate")["backend"] == "own", "no job plans without the state"
        assert planned(system, "estate") == NOTHING, "it has its source with the backend again"
        terracrew(system, *change, "--state", str(state))
    assert planned(system, "estate") == NOTHING


def test_a_folder_with_its_state_its_values_and_its_backend_is_adopted_by_one_command(
    system: System, tofu: str
) -> None:
    system.start_server(runner=True)
    root = system.directory / "estate"
    folder = root / "prod"
    with state_server.running() as backend:
        (root / "modules" / "many").mkdir(parents=True)
        (root / "modules" / "many" / "main.tf").write_text(ESTATE % "first")
        uses = 'variable "note" {}\nvariable "more" {}\nmodule "many" {\n  source = "../modules/many"\n  note   = var.note\n}\n'
        folder.mkdir()
        (folder / "terraform.tfvars").write_text('note = "from the folder"\n')
        (folder / "main.tf").write_text(backend.block + uses + 'output "more" { value = var.more }\n')
        (system.directory / "prod.tfvars").write_text('more = "1.30"\n')
        bare(tofu, folder, "init")
        bare(tofu, folder, "apply", "-auto-approve", f"-var-file={system.directory / 'prod.tfvars'}")
        options = ["--root", str(root), "--engine", "tofu", "--var-file", str(system.directory / "prod.tfvars")]
        said = terracrew(system, "adopt", str(folder), "--as", "shop/prod", *options)
    assert "created module shop/prod with the state of" in said
    assert "the backend block of main.tf is not in the copy" in said
    assert "the plan finds nothing to change" in said
    assert system.api.get("/modules/shop%2Fprod/resources")["count"] == 50
    applied = system.wait(system.run("shop/prod", "APPLY"))
    assert applied["status"] == "SUCCEEDED", system.log(applied["id"])
    assert system.api.get("/modules/shop%2Fprod/outputs")["outputs"]["more"]["value"] == "1.30"


def test_what_cannot_be_adopted_leaves_nothing_behind(system: System, tofu: str) -> None:
    system.start_server(runner=True)
    folder = system.directory / "estate"
    folder.mkdir()
    (folder / "main.tf").write_text(ESTATE % "first")
    bare(tofu, folder, "init")
    assert "has no state" in terracrew(system, "adopt", str(folder), "--as", "shop", "--engine", "tofu", code=2)
    wrong = system.directory / "wrong.json"
    wrong.write_text("{}")
    options = ["--engine", "tofu", "--state", str(wrong)]
    assert "is not a state" in terracrew(system, "adopt", str(folder), "--as", "shop", *options, code=2)
    assert list(system.api.list("/modules")) == []


def test_the_bare_engine_reads_the_state_of_a_module_and_cannot_write_it(system: System, tofu: str) -> None:
    system.start_server(runner=True)
    system.module("platform/network", 'output "id" { value = "vpc-1" }')
    assert system.wait(system.run("platform/network", "APPLY"))["status"] == "SUCCEEDED"
    token = (system.data / "admin.token").read_text().strip()
    address = f"{system.url}/api/v1/modules/platform%2Fnetwork/state"
    settings = f'address = "{address}"\n    headers = {{ Authorization = "Bearer {token}" }}\n'
    folder = system.directory / "reader"
    read = f'data "terraform_remote_state" "network" {{\n  backend = "http"\n  config = {{\n    {settings}  }}\n}}\n'
    estate(tofu, folder, read + 'output "id" { value = data.terraform_remote_state.network.outputs.id }\n')
    assert bare(tofu, folder, "output", "-raw", "id") == "vpc-1"
    writer = system.directory / "writer"
    writer.mkdir()
    block = f'terraform {{\n  backend "http" {{\n    {settings}    retry_max = 0\n  }}\n}}\n'
    (writer / "main.tf").write_text(block + 'output "id" { value = "mine" }\n')
    bare(tofu, writer, "init")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        bare(tofu, writer, "apply", "-auto-approve")
    assert "Failed to save state" in refused.value.stderr, "it has not locked the module"
    assert system.state("platform/network")["outputs"]["id"]["value"] == "vpc-1"
