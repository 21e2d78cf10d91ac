"""A runner that the provider `terracrew` destroys while it has a job."""

import threading

import pytest

from terracrew.errors import NotFound
from tests.e2e import modules
from tests.e2e.gate import Gate
from tests.e2e.provider_workspace import Workspace
from tests.e2e.system import System, eventually

RUNNER = """
resource "terracrew_runner" "crew" {
  name = "crew"
}
import {
  to = terracrew_runner.crew
  id = "crew"
}
"""


@pytest.mark.feature("K9.resources")
@pytest.mark.engine
def test_destroying_a_runner_waits_for_its_job(system: System, gate: Gate) -> None:
    system.start_server(runner=False)
    system.start_runner(system.register_runner("crew"))
    workspace = Workspace(system)
    assert "1 imported, 0 added, 0 changed, 0 destroyed" in workspace.apply(RUNNER)
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)

    def open_when_it_drains() -> None:
        eventually(lambda: system.api.get("/runners/crew")["is_draining"], what="the drain")
        gate.open()

    opening = threading.Thread(target=open_when_it_drains)
    opening.start()
    workspace.run("destroy", "-auto-approve")
    opening.join()
    assert system.job(job)["status"] == "SUCCEEDED", "the runner was gone before its job had ended"
    with pytest.raises(NotFound):
        system.api.get("/runners/crew")
