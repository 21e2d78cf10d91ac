"""What an operator sets for a runner, seen from the processes that it is set for: at once, on every server, without a restart."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.e2e import modules
from tests.e2e.command_line import terracrew
from tests.e2e.gate import Gate
from tests.e2e.pair import servers
from tests.e2e.system import Process, System, eventually
from tests.thoroughness import thorough

__all__ = ["servers"]
pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
OWN = {
    "TERRACREW_JOB_LOG_STREAM__PERIOD_SECONDS": "3600",
    "TERRACREW_JOB_LOG_STREAM__BATCH_SIZE_LIMIT": "10000",
}
"""A runner whose jobs' logs wait for an hour, unless somebody watches or sets something else."""
BEAT = "terracrew.runner.connection.heartbeat: a heartbeat that names"
BEATS_SHOWN = "terracrew.runner.connection.heartbeat=debug"


def said(process: Process, words: str) -> int:
    return process.log.read_text().count(words)


def instance(system: System) -> dict[str, Any]:
    (found,) = system.api.get("/runners/crew")["instances"]
    return found


@pytest.mark.postgres
@pytest.mark.feature("C2.configuration", "L2.batches")
@thorough
def test_what_is_set_on_one_server_reaches_runner_and_executor_on_the_other_at_once(
    servers: tuple[System, System], gate: Gate
) -> None:
    one, other = servers
    credentials = one.register_runner() | OWN
    runner = other.start_runner(credentials)
    one.module("app", modules.gated_plan(gate.address))
    job = one.run("app")
    assert gate.reached.wait(60)
    before = instance(one)["connected_at"]
    assert "Reading..." not in one.log(job), "its own settings hold it back"

    shown = terracrew(
        one,
        "runner",
        "configure",
        "crew",
        "--heartbeat-seconds",
        "1",
        "--log-level",
        BEATS_SHOWN,
        "--log-period",
        "0.05",
    )
    assert "seconds between heartbeats" in shown
    eventually(lambda: said(runner, BEAT) >= 3, within=20, what="a heartbeat a second, in the log")
    eventually(lambda: "Reading..." in one.log(job), within=10, what="the line that waited")
    assert instance(one)["connected_at"] == before
    assert said(runner, "connected to") == 1

    terracrew(one, "runner", "configure", "crew", "--reset")
    eventually(lambda: said(runner, "log levels as they are set here"), what="the runner's own settings")
    assert one.api.get("/runners/crew")["configuration"]["heartbeat_seconds"] is None
    beats = said(runner, BEAT)
    gate.open()
    assert one.wait(job)["status"] == "SUCCEEDED"
    assert said(runner, BEAT) == beats, "the heartbeats are not in the log any more"
    assert instance(one)["connected_at"] == before

    terracrew(one, "runner", "configure", "crew", "--log-level", BEATS_SHOWN, "--heartbeat-seconds", "1.5")
    eventually(lambda: said(runner, BEAT) > beats, what="the heartbeats again")
    runner.kill()
    beats, told = said(runner, BEAT), said(runner, "a heartbeat every")
    again = other.start_runner(credentials)
    eventually(lambda: said(again, BEAT) >= beats + 3, within=20, what="the same, from the welcome of a new connection")
    assert said(again, "a heartbeat every") == told, "it was told in the welcome and not once more"


@pytest.mark.feature("C2.configuration")
def test_the_built_in_runner_obeys_the_log_levels_that_it_is_given(system: System) -> None:
    """It reported the new levels, and its entries stayed as they were."""
    server = system.start_server(runner=True)
    (builtin,) = system.api.get("/runners")["items"]
    place = f"/runners/{builtin['id']}"
    system.api.patch(place, {"configuration": {"heartbeat_seconds": 1, "log_level": {"Default": "Debug"}}})
    eventually(lambda: said(server, BEAT) >= 2, within=20, what="its heartbeats in the server's log")
    system.api.patch(place, {"configuration": None})
    eventually(lambda: said(server, "log levels as they are set here"), what="its own levels again")


@pytest.mark.feature("C2.configuration")
def test_an_executor_that_is_told_to_wait_longer_ships_at_once_while_somebody_watches(
    system: System, gate: Gate
) -> None:
    system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    system.api.patch("/runners/crew", {"configuration": {"period_seconds": 3600, "batch_size_limit": 10_000}})
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    assert "Reading..." not in system.log(job)
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "terracrew.cli",
            "--url",
            system.url,
            "--token-file",
            str(system.data / "admin.token"),
            "job",
            "logs",
            "-f",
            job,
        ],
        stdout=subprocess.PIPE,
        env=system.env,
    ) as following:
        assert following.stdout is not None
        os.set_blocking(following.stdout.fileno(), False)
        seen = bytearray()
        eventually(
            lambda: seen.extend(following.stdout.read() or b"") or b"Reading..." in seen,  # pyright: ignore[reportOptionalMemberAccess]
            what="what the watcher sees",
        )
        gate.open()
        following.wait(60)
    assert system.wait(job)["status"] == "SUCCEEDED", runner.log.read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give the settings to change, or --reset alone"),
        (["--reset", "--log-period", "3"], "give the settings to change, or --reset alone"),
        (["--log-level", "Debug"], "is not CATEGORY=LEVEL"),
        (["--log-level", "Default=Loud"], "'Loud' is not one of "),
        (["--heartbeat-seconds", "60"], "is not in the range 1 to 30"),
    ],
)
def test_what_cannot_be_set_is_said_in_words(system: System, arguments: list[str], words: str) -> None:
    system.start_server(runner=False)
    system.register_runner()
    assert words in terracrew(system, "runner", "configure", "crew", *arguments, code=2)


@pytest.mark.feature("R7.drain", "S5.draining")
def test_a_runner_is_drained_and_takes_jobs_again_by_the_command_line(system: System) -> None:
    system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    system.module("app", modules.quick())
    assert system.wait(system.run("app"))["status"] == "SUCCEEDED"
    terracrew(system, "runner", "drain", "crew")
    eventually(lambda: said(runner, "take no new jobs"), what="the drain")
    assert system.api.get("/runners/crew")["status"] == "DRAINING"
    job = system.run("app")
    assert eventually(lambda: system.job(job)["reason"], what="why it waits")["code"] == "none_online"
    terracrew(system, "runner", "undrain", "crew")
    assert system.wait(job)["status"] == "SUCCEEDED"
    assert said(runner, "connected to") == 1
