"""`terracrew import hcp` reads another server of Terracrew by the interface that it shares with HCP Terraform."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.command_line import terracrew
from tests.e2e.system import System, running
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240), pytest.mark.feature("P6.hcp", "P6.no-changes")]

MAIN = """
variable "sizes" { type = list(number) }
resource "terraform_data" "each" {
  for_each = toset([for size in var.sizes : tostring(size)])
  input    = each.key
}
"""
NOTHING = {"add": 0, "change": 0, "destroy": 0, "replace": 0}


@pytest.fixture
def old(tmp_path: Path) -> Iterator[System]:
    (tmp_path / "old").mkdir()
    with running(tmp_path / "old") as found:
        yield found


@thorough
def test_a_module_moves_to_another_server_and_nothing_is_to_change(old: System, system: System) -> None:
    old.start_server(runner=True)
    inputs = {"sizes": [1, 2]}
    old.module("platform/network", MAIN, inputs=inputs, labels=["app", "team=sales"], engine_version=">= 1.6")
    old.api.post(
        "/inputs", {"place": "platform/network", "name": "TOKEN", "target": "environment", "secret": "s3cr3t!!"}
    )
    assert old.wait(old.run("platform/network", "APPLY"))["status"] == "SUCCEEDED"
    old.api.post("/modules", {"path": "platform/bare", "source": {"kind": "archive", "archive_id": ""}})
    system.start_server(runner=True)
    command = [
        "--url",
        system.url,
        "--token-file",
        str(system.data / "admin.token"),
        "import",
        "hcp",
        "--json",
        "--yes",
    ]
    command += ["--url", old.url, "--organization", "default", "--engine", "tofu", "--into", "/", "--token-stdin"]
    ended = subprocess.run(
        [sys.executable, "-m", "terracrew.cli", *command],
        env=system.env,
        input=(old.data / "admin.token").read_text(),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert sorted((each["path"], each["action"]) for each in found["modules"]) == [
        ("platform/bare", "create"),
        ("platform/network", "create"),
    ]
    assert found["by_hand"] == ["terracrew input set platform/network TOKEN --env --secret"]
    module = system.api.get("/modules/platform%2Fnetwork")
    assert {"app", "team=sales"} < set(module["labels"])
    assert module["inputs"] == inputs
    assert system.state("platform/network") == old.state("platform/network")
    terracrew(system, "module", "update", "platform/network", "--from", str(old.directory / "source/platform/network"))
    job = system.wait(system.run("platform/network"))
    assert job["status"] == "SUCCEEDED", system.log(job["id"])
    assert {name: job["plan"][name] for name in NOTHING} == NOTHING
