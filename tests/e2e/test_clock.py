"""The wall clock of a real server on SQLite jumps by an hour: nothing expires, and jobs go on."""

from pathlib import Path

import pytest

from tests.chaos.clock import Clock
from tests.e2e.approvals import approve, waiting
from tests.e2e.constants import environment
from tests.e2e.system import System, eventually

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
MAIN = 'resource "terraform_data" "a" { input = 1 }'
HOUR = 3600


@pytest.mark.feature("J8.timeout")
def test_a_jump_of_the_servers_clock_ends_no_approval(system: System, tmp_path: Path) -> None:
    """A step forward of an hour ended every plan that had less than an hour left to be approved."""
    clock = Clock(tmp_path / "clock")
    with environment(system, clock.of_python):
        server = system.start_server(runner=True)
        system.module("asks", MAIN, needs_approval=True, approval_seconds=600)
        system.module("other", MAIN)
        job = system.run("asks", "APPLY")
        waiting(system, job)
        clock.set(HOUR)
        log = system.directory / "server.log"
        eventually(lambda: "the wall clock differs" in log.read_text() or None, what="the notice of the jump")
        assert system.wait(system.run("other"))["status"] == "SUCCEEDED"
        assert system.status(job) == "AWAITING_APPROVAL"
        server.stop()
        system.start_server(runner=True)
        assert system.wait(system.run("other"))["status"] == "SUCCEEDED"
        assert system.status(job) == "AWAITING_APPROVAL", "a restart goes on with the same time"
        approve(system, job)
        done = system.wait(job)
        assert done["status"] == "SUCCEEDED"
        assert done["finished_at"] > done["started_at"]
