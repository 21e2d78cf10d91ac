"""The provider `terracrew` in a job of Terracrew itself."""

import re

import pytest

from terracrew.client.address import segment
from tests.e2e.provider_workspace import MAIN
from tests.e2e.system import System
from tests.machine import providers

TREE = """
data "terracrew_module" "own" {
  path = "platform/tree"
}
resource "terracrew_group" "below" {
  path        = "platform/below"
  description = "made by ${data.terracrew_module.own.id}"
}
"""


@pytest.mark.feature("K9.jobs")
@pytest.mark.engine
def test_a_job_reads_its_own_module_and_is_told_that_it_cannot_change_anything(system: System) -> None:
    providers.configuration(system.directory, providers.own_mirror()).rename(system.directory / ".tofurc")
    system.start_server(runner=True)
    system.module("platform/tree", MAIN + TREE)
    job = system.run("platform/tree", "APPLY")
    assert system.wait(job)["status"] == "FAILED"
    said = " ".join(re.sub(r"\x1b\[[0-9;]*m|│", "", system.log(job)).split())
    module = system.api.get(f"/modules/{segment('platform/tree')}")
    assert f"made by {module['id']}" in said
    assert "The group was not created" in said
    assert "This is the token of a Terracrew job, which can only read the job's own module." in said
