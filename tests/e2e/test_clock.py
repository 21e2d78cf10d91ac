"""Wall clocks of real processes that jump or differ: nothing expires, and jobs go on."""

from pathlib import Path

import pytest

from tests.chaos.clock import Clock
from tests.e2e.approvals import approve, waiting
from tests.e2e.constants import constants, environment
from tests.e2e.system import System, eventually
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
MAIN = 'resource "terraform_data" "a" { input = 1 }'
HOUR = 3600
FIVE_MINUTES = 300


@pytest.mark.feature("J8.timeout")
@thorough
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


@pytest.mark.feature("A6.renewal", "O2.status")
@pytest.mark.parametrize("offset", [pytest.param(-FIVE_MINUTES, marks=thorough), FIVE_MINUTES])
def test_a_runner_whose_clock_is_five_minutes_off_connects_renews_its_token_and_applies(
    system: System, tmp_path: Path, offset: int
) -> None:
    clock = Clock(tmp_path / "clock")
    clock.set(offset)
    lifetime = constants(
        server__identity__oidc__tokens__LIFETIME_SECONDS=8, server__hub__notify__TOKEN_LEEWAY_SECONDS=60.0
    )
    with environment(system, lifetime):
        system.start_server(runner=False)
    own = {"TERRACREW_LOGGING__LOG_LEVEL": '{"terracrew.runner.connection.hub_connection": "Debug"}'}
    with environment(system, clock.of_python | own):
        runner = system.start_runner(system.register_runner())
    system.module("asks", MAIN, needs_approval=True, oidc_audiences=["https://cloud.example"])
    job = system.run("asks", "APPLY")
    waiting(system, job)
    approve(system, job)
    done = system.wait(job)
    assert done["status"] == "SUCCEEDED", system.log(job)
    assert done["attempt"] == 2, "one attempt planned, and another one applied after the approval"
    assert done["finished_at"] > done["started_at"]
    eventually(lambda: "the token is renewed" in runner.log.read_text(), what="the renewal of the token")
    assert runner.log.read_text().count(": connected to http") == 1
