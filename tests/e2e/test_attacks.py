"""Attacks on a whole system: processes are killed in the middle, and nothing may be lost or done twice."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.e2e import modules
from tests.e2e.constants import constants, environment
from tests.e2e.gate import Gate
from tests.e2e.system import System, eventually, lines_of
from tests.thoroughness import thorough

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]
CHATTY_LINES = 700


def words(file: Path) -> list[str]:
    return file.read_text().split() if file.exists() else []


@pytest.mark.feature("O1.continues", "O4.adopted")
@pytest.mark.parametrize("comes_back", [False, True])
def test_a_killed_runner_does_not_take_its_plan_with_it(system: System, gate: Gate, comes_back: bool) -> None:
    system.start_server(runner=False)
    credentials = system.register_runner()
    runner = system.start_runner(credentials)
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    executor = system.executor(job)
    runner.kill()
    os.kill(executor, 0)
    if comes_back:
        system.start_runner(credentials)
    gate.open()
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert (ended["attempt"], len(ended["attempts"])) == (1, 1)
    assert "Plan:" in system.log(job)


@pytest.mark.feature("O3.requeued", "O4.salvaged")
def test_a_killed_executor_costs_its_plan_one_attempt(system: System, gate: Gate) -> None:
    system.start_server(runner=True)
    system.module("app", modules.gated_plan(gate.address))
    job = system.run("app")
    assert gate.reached.wait(60)
    os.kill(system.executor(job), signal.SIGKILL)
    gate.open()
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert [attempt["outcome"] for attempt in ended["attempts"]] == ["gone", "succeeded"]
    assert "Plan:" in system.log(job)


@pytest.mark.feature("J15.kept", "O3.fenced", "O4.salvaged")
def test_a_killed_executor_in_an_apply_loses_no_state_and_applies_nothing_twice(system: System, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"
    system.start_server(runner=True)
    system.module("app", modules.gated_apply(str(witness), str(gate)))
    job = system.run("app", "APPLY")
    eventually(lambda: words(witness) == ["begin"], what="the apply")
    os.kill(system.executor(job), signal.SIGKILL)
    gate.touch()
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert [attempt["outcome"] for attempt in ended["attempts"]] == ["gone", "succeeded"]
    assert words(witness) == ["begin", "end"], "what was applied once is not applied again"
    states = list(system.api.list("/modules/app/states"))
    assert any(state["origin"] == "errored" for state in states), states
    assert "No changes" in system.log(job) or "0 added" in system.log(job) or "Apply complete" in system.log(job)
    assert {r["name"] for r in system.state("app")["resources"]} == {"first", "slow"}


@pytest.mark.feature("L3.complete", "O4.salvaged", "O6.restart")
@thorough
def test_everything_in_one_process_killed_in_an_apply_and_started_seconds_later(system: System, tmp_path: Path) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"
    up = system.start_server(runner=True)
    system.module("app", modules.gated_apply(str(witness), str(gate)))
    job = system.run("app", "APPLY")
    eventually(lambda: words(witness) == ["begin"], what="the apply")
    up.kill()
    gate.touch()
    eventually(lambda: words(witness) == ["begin", "end"], what="the apply's end")
    time.sleep(6)  # the outage itself
    system.start_server(runner=True)
    ended = system.wait(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), system.log(job)
    assert {r["name"] for r in system.state("app")["resources"]} == {"first", "slow"}
    assert "Apply complete!" in system.log(job)


@pytest.mark.feature("L3.complete", "O1.continues", "O6.restart")
@thorough
def test_a_server_that_is_away_for_the_rest_of_a_chatty_apply_loses_no_line(system: System, tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    server = system.start_server(runner=False)
    system.start_runner(system.register_runner())
    system.module("app", modules.chatty_apply(CHATTY_LINES, str(witness), pause=0.01))
    job = system.run("app", "APPLY")
    eventually(lambda: len(words(witness)) > 100, what="the apply")
    server.kill(signal.SIGKILL)
    eventually(lambda: len(words(witness)) == CHATTY_LINES, what="the last line while the server is away")
    system.start_server(runner=False)
    ended = system.wait(job)
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 1), system.log(job)
    printed = [line.rpartition("line-")[2] for line in lines_of(system, job, "(local-exec): line-")]
    assert printed == [f"{n}-of-it" for n in range(1, CHATTY_LINES + 1)]
    assert words(witness) == [str(n) for n in range(1, CHATTY_LINES + 1)]


@pytest.mark.feature("J15.kept", "O6.restart")
def test_a_state_written_while_the_server_is_down_is_there_exactly_once_and_before_success(
    system: System, tmp_path: Path
) -> None:
    witness, gate = tmp_path / "witness", tmp_path / "gate"
    server = system.start_server(runner=False)
    system.start_runner(system.register_runner())
    system.module("app", modules.gated_apply(str(witness), str(gate)))
    job = system.run("app", "APPLY")
    eventually(lambda: words(witness) == ["begin"], what="the apply")
    server.kill(signal.SIGKILL)
    gate.touch()
    outbox = next(system.directory.glob("runner-one/attempts/*/outbox"))
    eventually(lambda: b'"type":"result"' in outbox.read_bytes(), what="the engine's end")
    system.start_server(runner=False)
    seen: list[bool] = []

    def succeeded() -> bool:
        is_done = system.status(job) == "SUCCEEDED"
        if is_done:
            seen.append({r["name"] for r in system.state("app")["resources"]} == {"first", "slow"})
        return is_done

    eventually(succeeded, within=60, what="success")
    assert seen == [True], "the state was there when the job was first seen SUCCEEDED"
    states = list(system.api.list("/modules/app/states"))
    assert len({(s["attempt"], s["event"]) for s in states}) == len(states)
    assert [s["version"] for s in sorted(states, key=lambda s: s["version"])] == list(range(1, len(states) + 1))


@pytest.mark.feature("O3.fenced")
def test_an_executor_that_is_cut_off_does_not_apply_before_it_has_a_permit(
    system: System, gate: Gate, tmp_path: Path
) -> None:
    witness = tmp_path / "witness"
    server = system.start_server(runner=False)
    system.start_runner(system.register_runner())
    is_open = tmp_path / "open"
    is_open.touch()
    body = modules.gated_plan(gate.address) + modules.gated_apply(str(witness), str(is_open))
    system.module("app", body)
    job = system.run("app", "APPLY")
    assert gate.reached.wait(60)
    server.kill(signal.SIGKILL)
    gate.open()
    outbox = next(system.directory.glob("runner-one/attempts/*/outbox"))
    eventually(lambda: b'"type":"plan"' in outbox.read_bytes(), what="the plan's end")
    time.sleep(3)  # it is cut off: nothing may begin in this time
    assert words(witness) == []
    server = system.start_server(runner=False)
    ended = system.wait(job)
    assert ended["status"] == "SUCCEEDED", system.log(job)
    assert words(witness)[0] == "begin"


SHORT_SILENCE = constants(server__jobs__decide__SILENT_FOR=8, api__runners__HEARTBEAT_SECONDS=2)
"""Instead of a minute, and heartbeats of ten seconds."""


@pytest.mark.feature("O3.fenced")
def test_an_executor_that_was_superseded_while_it_was_cut_off_never_applies(
    system: System, gate: Gate, tmp_path: Path
) -> None:
    witness, is_open = tmp_path / "witness", tmp_path / "open"
    is_open.touch()
    server = system.start_server(runner=False)
    first, second = system.register_runner("first"), system.register_runner("second")
    runner = system.start_runner(first, "first")
    system.module("app", modules.gated_plan(gate.address) + modules.gated_apply(str(witness), str(is_open)))
    job = system.run("app", "APPLY")
    assert gate.reached.wait(60)
    executor = system.executor(job)
    server.kill()
    os.kill(executor, signal.SIGSTOP)
    runner.kill()
    gate.open()
    with environment(system, SHORT_SILENCE):
        system.start_server(runner=False)
    system.start_runner(second, "second")
    ended = system.wait(job, within=150)  # a server that has just started gives everybody a full period
    assert (ended["status"], ended["attempt"]) == ("SUCCEEDED", 2), system.log(job)
    assert words(witness) == ["begin", "end"]
    os.kill(executor, signal.SIGCONT)
    eventually(lambda: f"{job}.1" not in system.executors(), within=60, what="the end of the superseded executor")
    assert words(witness) == ["begin", "end"]
    assert system.job(job) | {"notes": []} == ended | {"notes": [], "attempts": system.job(job)["attempts"]}
