"""Who is there, with real processes: stopped, drained, doubled, and a server that is away meanwhile."""

import contextlib
import os
import signal
import threading
import time
from collections.abc import Generator
from typing import Any

import pytest

from tests.e2e import modules
from tests.e2e.constants import constants, environment
from tests.e2e.gate import Gate
from tests.e2e.pair import servers
from tests.e2e.system import Process, System, eventually
from tests.thoroughness import thorough

pytestmark = pytest.mark.timeout(240)
SILENCE_SECONDS, HEARTBEAT_SECONDS, WRITE_SECONDS = 10.0, 2.0, 1.0
"""Instead of a minute, ten seconds and five, for a server that is started with `IMPATIENT`."""
IMPATIENT = constants(
    server__runners__model__SILENCE_SECONDS=SILENCE_SECONDS,
    api__runners__HEARTBEAT_SECONDS=HEARTBEAT_SECONDS,
    server__connections__heartbeats__WRITE_SECONDS=WRITE_SECONDS,
    server__process__serve__PING_SECONDS=3,
)
__all__ = ["servers"]


def runner_of(system: System, name: str = "crew") -> dict[str, Any]:
    return system.api.get(f"/runners/{name}")


def wait_for(system: System, status: str, within: float = 20, name: str = "crew") -> dict[str, Any]:
    def there() -> dict[str, Any] | None:
        found = runner_of(system, name)
        return found if found["status"] == status else None

    return eventually(there, within=within, what=f"{name} to be {status}")


def ended(process: Process, within: float = 20) -> int:
    return process.wait(within)


@contextlib.contextmanager
def stopped(process: Process) -> Generator[None]:
    process.kill(signal.SIGSTOP)
    try:
        yield
    finally:
        process.kill(signal.SIGCONT)


@contextlib.contextmanager
def watching(system: System) -> Generator[list[tuple[float, str]]]:
    """The events about runners that an open page gets, each with its time."""
    seen: list[tuple[float, str]] = []
    is_over = threading.Event()

    def read() -> None:
        for event in system.api.events("/events"):  # a ping comes every 15 s
            if is_over.is_set():
                return
            seen.append((time.monotonic(), event.name))

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    eventually(lambda: seen, what="the stream")
    try:
        yield seen
    finally:
        is_over.set()


@pytest.mark.feature("O2.status")
@thorough
def test_a_stopped_runner_is_offline_a_minute_after_its_last_heartbeat_and_an_open_page_is_told(system: System) -> None:
    with environment(system, IMPATIENT):
        system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    first = wait_for(system, "ONLINE")["last_seen_at"]
    with watching(system) as seen:
        eventually(lambda: runner_of(system)["last_seen_at"] != first, what="a heartbeat")
        with stopped(runner):
            began = time.monotonic()
            last = runner_of(system)["last_seen_at"]
            while (took := time.monotonic() - began) < SILENCE_SECONDS - HEARTBEAT_SECONDS - WRITE_SECONDS - 2:
                assert runner_of(system)["status"] == "ONLINE", took
                time.sleep(1)
            found = wait_for(system, "OFFLINE", within=20)
            told = eventually(lambda: [at for at, name in seen if at > began and name == "runners"], what="an event")[
                -1
            ]
            assert found["last_seen_at"] == last
            # The last heartbeat that was written may be older than the stop by one interval and one write.
            earliest = SILENCE_SECONDS - HEARTBEAT_SECONDS - WRITE_SECONDS - 1
            assert earliest <= told - began <= SILENCE_SECONDS + 5
        wait_for(system, "ONLINE")


@pytest.mark.feature("R4.one")
def test_a_second_process_is_refused_in_words_and_the_first_is_undisturbed(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    first = system.start_runner(credentials)
    before = wait_for(system, "ONLINE")["instances"]
    second = system.start_runner(credentials, "two")
    assert ended(second) != 0
    assert "allows one process, and one is connected" in second.log.read_text()
    after = runner_of(system)["instances"]
    assert [each["connected_at"] for each in after] == [each["connected_at"] for each in before]
    assert "was closed" not in first.log.read_text()


@pytest.mark.feature("R4.takeover")
def test_a_second_process_gets_the_place_of_a_stopped_one(system: System) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    first = system.start_runner(credentials)
    wait_for(system, "ONLINE")
    with stopped(first):
        began = time.monotonic()
        system.start_runner(credentials, "two")
        eventually(
            lambda: (
                {each["name"]: each["status"] for each in runner_of(system)["instances"]}
                == {"two": "ONLINE", "one": "OFFLINE"}
            ),
            what="the place",
        )
        assert 4 < time.monotonic() - began < 15


@pytest.mark.engine
@pytest.mark.feature("O2.draining", "O4.adopted")
def test_a_runner_that_is_told_to_end_drains_and_told_again_leaves_its_executors_alone(
    system: System, gate: Gate
) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    os.kill(runner.pid, signal.SIGTERM)
    wait_for(system, "DRAINING")
    assert system.status(job) == "PROCESSING"
    os.kill(runner.pid, signal.SIGTERM)
    assert ended(runner, 5) == 0
    wait_for(system, "OFFLINE", within=2)
    os.kill(system.executor(job), 0)
    gate.open()
    done = system.wait(job)
    assert (done["status"], done["attempt"]) == ("SUCCEEDED", 1)


@pytest.mark.feature("O2.status", "O6.blameless")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_runner_is_not_offline_because_the_server_was_away(system: System, number: int) -> None:
    server = system.start_server(runner=False)
    runner = system.start_runner(system.register_runner())
    wait_for(system, "ONLINE")
    with stopped(runner):  # so that it cannot come back before it is looked at
        server.kill(number)
        system.start_server(runner=False)
        found = runner_of(system)
        assert found["status"] == "ONLINE", found
    eventually(lambda: runner_of(system)["instances"][0]["connected_at"] != found["instances"][0]["connected_at"])


@pytest.mark.postgres
@pytest.mark.feature("R3.built-in")
def test_each_of_two_servers_has_a_built_in_runner_of_its_own(servers: tuple[System, System]) -> None:
    """They took the one place from each other, and each start of a server ended the credential of the others."""

    def restart(system: System) -> None:
        system.processes[-1].stop()
        system.start_server(runner=True)

    def online() -> dict[str, str]:
        found = runner_of(servers[1], "built-in")["instances"]
        return {each["name"]: each["connected_at"] for each in found if each["status"] == "ONLINE"}

    for system in servers:
        restart(system)
    before = eventually(lambda: found if len(found := online()) == 2 else None, what="two instances")
    restart(servers[0])
    after = eventually(lambda: found if len(found := online()) == 2 and found != before else None, what="its return")
    assert after.keys() == before.keys(), "each keeps its name"
    assert len(set(after.items()) & set(before.items())) == 1, "the other one was not disturbed"
