"""Runners that are removed while they work: their right to claim ends at once, what they run is delivered or lost by the rules."""

import os
import signal

import pytest

from terracrew.cli.connection.deadline import TimedOut
from terracrew.errors import Removed
from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.constants import ended
from tests.e2e.gate import Gate
from tests.e2e.pair import servers
from tests.e2e.system import Process, System, eventually
from tests.thoroughness import thorough

__all__ = ["servers"]
pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]


def at_the_gate(system: System, gate: Gate) -> tuple[Process, str]:
    """A runner and the plan that it runs."""
    runner = system.start_runner(system.register_runner())
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    return runner, job


@pytest.mark.postgres
@pytest.mark.feature("R7.force")
def test_a_runner_that_is_removed_by_force_claims_nothing_more_and_what_it_runs_is_delivered(
    servers: tuple[System, System], gate: Gate
) -> None:
    one, other = servers
    runner, job = at_the_gate(other, gate)
    begun = terracrew(one, "runner", "remove", "crew", "--yes", "--timeout", "1s", code=TimedOut.exit_code)
    assert "removing crew: 1 job (#1) left" in begun
    assert "the removal of crew has not ended within 1 s; it continues" in begun
    assert one.api.get("/runners/crew")["removing_since"]
    terracrew(one, "runner", "remove", "crew", "--force", "--yes")
    eventually(lambda: "this runner was removed" in runner.log.read_text(), within=5, what="the word of it")
    one.module("next", modules.quick())
    waiting = one.run("next")
    gate.open()
    found = one.wait(job)
    assert (found["status"], found["attempt"]) == ("SUCCEEDED", 1), runner.log.read_text()
    assert (found["runner_path"], found["instance_name"]) == ("crew", "one")
    assert ended(runner) == Removed.exit_code
    assert runner.log.read_text().rstrip().endswith("To use this machine again, register a runner")
    assert not list((other.runner_directory() / "attempts").iterdir())
    assert one.job(waiting)["reason"]["code"] == "no_assignment"
    assert [each["path"] for each in one.api.list("/runners")] == []


@pytest.mark.feature("O3.requeued", "O4.salvaged", "R7.force")
@thorough
def test_the_job_of_a_removed_runner_whose_executor_dies_goes_to_the_next_runner(system: System, gate: Gate) -> None:
    system.start_server(runner=False)
    runner, job = at_the_gate(system, gate)
    system.start_runner(system.register_runner("second"), "two")
    eventually(lambda: system.api.get("/runners/second")["status"] == "ONLINE", what="the second runner")
    terracrew(system, "runner", "remove", "crew", "--force", "--yes")
    os.kill(system.executor(job), signal.SIGKILL)
    gate.open()
    found = system.wait(job)
    assert found["status"] == "SUCCEEDED", system.log(job)
    assert [each["outcome"] for each in found["attempts"]] == ["lost", "succeeded"]
    assert (found["runner_path"], found["instance_name"]) == ("second", "two")
    assert ended(runner) == Removed.exit_code
    assert not list((system.runner_directory() / "attempts").iterdir())
    assert "Initializing the backend" in system.log(job, 1), "what the dead one left was delivered"


@pytest.mark.feature("R7.remove")
def test_a_runner_that_is_removed_while_it_is_away_learns_it_when_it_comes_back(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    eventually(lambda: "connected to" in runner.log.read_text(), what="the runner")
    runner.kill()
    terracrew(system, "runner", "remove", "crew", "--force", "--yes")
    again = system.start_runner(credentials)
    assert ended(again) == Removed.exit_code
    assert "this runner has been removed. To use this machine again, register a runner" in again.log.read_text()
    assert again.log.read_text().count("connected to") == 1, "only the first one ever was"


@pytest.mark.feature("R7.remove")
def test_a_drained_runner_is_removed_and_its_name_can_be_used_again(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    eventually(lambda: system.api.get("/runners/crew")["status"] == "ONLINE", what="the runner")
    assert "crew is drained" in terracrew(system, "runner", "drain", "crew", "--wait")
    assert system.api.get("/runners/crew")["status"] == "DRAINING"
    assert "removed crew" in terracrew(system, "runner", "remove", "crew", "--yes")
    assert ended(runner) == Removed.exit_code
    other = system.start_runner(system.register_runner(), "two")
    system.module("app", modules.quick())
    found = system.wait(system.run("app"))
    assert (found["status"], found["runner_path"]) == ("SUCCEEDED", "crew"), other.log.read_text()


@pytest.mark.feature("R7.remove")
def test_the_removal_of_a_busy_runner_waits_for_its_job_and_then_its_process_exits(system: System, gate: Gate) -> None:
    system.start_server(runner=False)
    runner, job = at_the_gate(system, gate)
    begun = terracrew(system, "runner", "remove", "crew", "--yes", "--no-wait")
    assert "removing crew: 1 job (#1) left" in begun
    system.module("next", modules.quick())
    waiting = system.run("next")
    assert system.job(waiting)["status"] == "QUEUED"
    gate.open()
    assert system.wait(job)["status"] == "SUCCEEDED"
    assert ended(runner) == Removed.exit_code
    assert [each["path"] for each in system.api.list("/runners")] == []
