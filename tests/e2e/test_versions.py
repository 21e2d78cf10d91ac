"""Servers and runners of different versions: those one apart serve each other, others say so and end."""

import os
from typing import Any

import msgspec
import pytest

from terracrew.errors import Incompatible
from terracrew.protocol import version
from tests.e2e import modules
from tests.e2e.constants import ended, environment, speaking
from tests.e2e.gate import Gate
from tests.e2e.simulated_runner import Client, hub, runner_hello, runner_token
from tests.e2e.system import Process, System, eventually
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]


def serve(system: System, oldest: int, newest: int) -> Process:
    with environment(system, speaking(oldest, newest)):
        return system.start_server(runner=False)


@pytest.mark.feature("C5.negotiated")
@pytest.mark.parametrize(
    ("server", "runner"),
    [
        pytest.param((1, 1), (1, 2), id="newer runner"),
        pytest.param((1, 2), (1, 1), id="older runner"),
        pytest.param((2, 3), (1, 2), id="a version that neither began with"),
    ],
)
def test_a_server_and_a_runner_one_version_apart_serve_each_other(
    system: System, server: tuple[int, int], runner: tuple[int, int]
) -> None:
    serve(system, *server)
    process = system.start_runner(system.register_runner() | speaking(*runner))
    system.module("app", modules.quick())
    job = system.wait(system.run("app", "APPLY"))
    assert job["status"] == "SUCCEEDED", process.log.read_text()
    assert "Apply complete" in system.log(job["id"])


@pytest.mark.feature("C5.refused", "S5.incompatible")
@pytest.mark.parametrize(
    ("server", "runner", "words"),
    [
        ((1, 1), (2, 3), "speaks protocol 2 to 3, this server 1: update the server, or use a runner that speaks 1"),
        ((2, 3), (1, 1), "speaks protocol 1, this server 2 to 3: update the runner"),
    ],
)
def test_an_incompatible_runner_is_told_both_versions_and_what_to_do_and_ends(
    system: System, server: tuple[int, int], runner: tuple[int, int], words: str
) -> None:
    serve(system, *server)
    process = system.start_runner(system.register_runner() | speaking(*runner))
    assert ended(process) == Incompatible.exit_code
    said = process.log.read_text()
    assert words in said
    assert said.count(words) == 1, "it did not try again"
    assert "connected to" not in said
    assert system.api.get("/runners/crew")["instances"] == [], "and it was not half served"
    refused = [line for line in (system.directory / "server.log").read_text().splitlines() if "refused" in line]
    assert len(refused) == 1


@pytest.mark.feature("C5.negotiated")
def test_a_hello_may_say_more_than_this_server_knows_and_nothing_else_may(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()

    def say(client: Client, message: dict[str, Any]) -> dict[str, Any]:
        client.socket.send(msgspec.json.encode(message).decode())
        return client.get()

    hello: dict[str, Any] = msgspec.to_builtins(runner_hello(credentials, newest_protocol=7)) | {
        "mood": "fine",
        "spare": [{"cpu": 4}],
    }
    with hub(system, runner_token(system, credentials)) as client:
        assert say(client, hello)["protocol"] == version.NEWEST_VERSION
        beat: dict[str, Any] = {"type": "heartbeat", "version": "7.0.0", "is_draining": False, "attempts": []}
        refused = say(client, beat | {"load": 0.5})
        assert (refused["code"], refused["is_final"]) == ("invalid", True)
        assert "unknown field `load`" in str(refused["message"])


@pytest.mark.feature("C5.refused")
def test_a_hello_of_a_version_that_has_nothing_else_in_common_is_told_the_versions(system: System) -> None:
    """It was told that a field was missing, which nobody can act on."""
    system.start_server(runner=False)
    credentials = system.register_runner()
    with hub(system, runner_token(system, credentials)) as client:
        future = {"type": "hello", "oldest_protocol": 8, "newest_protocol": 9, "version": "9.0.0", "who": {"runner": 1}}
        client.socket.send(msgspec.json.encode(future).decode())
        refused = client.get()
        assert (refused["code"], refused["is_final"]) == ("incompatible", True)
        assert f"runner 9.0.0 speaks protocol 8 to 9, this server {version.NEWEST_VERSION}" in refused["message"]


@thorough
@pytest.mark.feature("O4.salvaged")
@pytest.mark.parametrize(
    ("is_finished", "outcomes"),
    [(True, ["succeeded"]), (False, ["gone", "succeeded"])],
    ids=["finished", "in the middle"],
)
def test_what_an_attempt_left_that_no_longer_speaks_the_servers_version_is_delivered_by_an_updated_runner(
    system: System, gate: Gate, is_finished: bool, outcomes: list[str]
) -> None:
    """Its directory was set aside as one that the server would never take, and its job was canceled by nobody."""
    server = system.start_server(runner=False)
    credentials = system.register_runner()
    old = system.start_runner(credentials)
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    executor = system.executor(job)
    directory = system.runner_directory()
    output = directory / "attempts" / f"{job}.1" / "output"
    server.kill()
    if is_finished:
        gate.open()
        eventually(lambda: "Plan:" in output.read_text(), what="the plan")
    later = version.NEWEST_VERSION + 1
    serve(system, later, later + 1)
    assert ended(old) == Incompatible.exit_code
    if not is_finished:
        eventually(lambda: "Interrupt received" in output.read_text(), what="the executor's stop of its plan")
        gate.open()
    eventually(lambda: not os.path.exists(f"/proc/{executor}"), what="the executor's end")
    assert list((directory / "attempts").iterdir()), "what it has is kept"
    system.start_runner(credentials | speaking(later, later))
    eventually(lambda: not (directory / "attempts" / f"{job}.1").exists(), what="the delivery")
    assert not list((directory / "undelivered").iterdir())
    found = system.wait(job)
    # An engine that was interrupted may have everything that it needs, and finish its plan all the same.
    finished = [] if is_finished else [["succeeded"]]
    assert [each["outcome"] for each in found["attempts"]] in [outcomes, *finished]
    assert "Plan:" in system.log(job)
