"""What an attempt leaves, on the real engine: a stale state in a source, and outputs larger than any frame."""

import json
from pathlib import Path

import pytest

from tests.e2e.system import System
from tests.executor.raw_archives import packed
from tests.thoroughness import thorough

STALE = {
    "version": 4,
    "terraform_version": "1.9.0",
    "serial": 1,
    "lineage": "somebody-elses",
    "outputs": {},
    "resources": [],
}


@pytest.mark.feature("J15.kept")
@pytest.mark.timeout(120)
def test_a_stale_state_in_an_uploaded_source_never_replaces_the_real_one(system: System, tmp_path: Path) -> None:
    """Each apply made the resource again, because the stale state without it had become the current one."""
    system.start_server(runner=True)
    made = tmp_path / "made"
    main = f"""resource "terraform_data" "a" {{
      input = "x"
      provisioner "local-exec" {{ command = "echo made >> {made}" }}
    }}
    """
    source = packed({"main.tf": main, "errored.tfstate": json.dumps(STALE)})
    archive = system.api.upload("/archives", source, "application/gzip")
    fields = {"path": "app", "engine": "tofu", "source": {"kind": "archive", "archive_id": archive["id"]}}
    system.api.post("/modules", fields)
    for _ in range(2):
        job = system.run("app", "APPLY")
        assert system.wait(job)["status"] == "SUCCEEDED"
        assert "The source has a file errored.tfstate" in system.log(job)
    assert made.read_text().split() == ["made"]
    states = list(system.api.list("/modules/app/states"))
    assert {state["origin"] for state in states} == {"engine"}
    assert "somebody-elses" not in {state["lineage"] for state in states}
    assert len(system.state("app")["resources"]) == 1


@pytest.mark.feature("J12.stored")
@pytest.mark.timeout(120)
@thorough
def test_outputs_of_five_megabytes_are_kept_and_the_apply_succeeds(system: System) -> None:
    """It was FAILED, and `module outputs` went on printing the old ones."""
    system.start_server(runner=True)
    system.module("app", 'output "large" { value = [for i in range(1000) : format("%05000d", i)] }\n')
    ended = system.wait(system.run("app", "APPLY"))
    assert (ended["status"], ended["message"]) == ("SUCCEEDED", "")
    told = system.api.get("/modules/app/outputs")
    assert told["job_id"] == ended["id"]
    assert told["outdated_since"] is None
    value = told["outputs"]["large"]["value"]
    assert (len(value), len(value[999])) == (1000, 5000)
