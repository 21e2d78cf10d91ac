"""How a runner stops taking jobs and ends: drained, told to stop, or removed."""

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest

from terracrew import __version__, errors
from terracrew.protocol.messages import (
    Credits,
    Drain,
    HandBack,
    Heartbeat,
    Refused,
)
from terracrew.runner import instance
from terracrew.runner.departure import Stop
from terracrew.runner.main import run
from tests.machine import small_disk
from tests.runner.conftest import INT, TERM, TIMEOUT_SECONDS, Runners, granted, refs


@pytest.mark.feature("O2.draining", "R7.drain")
async def test_a_drained_runner_has_no_credits_until_it_is_told_otherwise(runners: Runners) -> None:
    runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, is_draining=True)
    _, peer = await runners.connected()
    await peer.receive(Heartbeat)
    await peer.receive(Heartbeat)
    assert not peer.received(Credits)
    await peer.send(Drain(on=False))
    assert (await peer.receive(Credits)).slots > 0
    await peer.send(Drain(on=True))
    assert (await peer.receive(Credits)).slots == 0
    await peer.send(granted())  # it was sent before the server heard of that
    assert (await peer.receive(HandBack)).reason == "this runner takes no new jobs"


@pytest.mark.feature("O2.draining")
async def test_a_runner_whose_disk_is_full_says_so_and_takes_no_more_jobs_until_it_has_room(
    runners: Runners,
) -> None:
    """Each job that it took failed within a second for want of room, so it took the next, while other runners were idle."""
    with small_disk.mounted(runners.directory.parent / "small", "8m") as disk:
        _, peer = await runners.connected(working_directory=str(disk), temp_directory=str(disk / ".temp"))
        assert not (await peer.receive(Heartbeat)).is_draining
        filler = disk / "filler"
        small_disk.fill(filler, but=128 << 10)
        await peer.send(granted())
        assert (await peer.receive(HandBack)).reason == "this runner takes no new jobs"
        while not (said := await peer.receive(Heartbeat)).is_draining:
            pass
        assert said.is_disk_full
        assert peer.received(Credits)[-1].slots == 0
        filler.unlink()
        assert (await peer.receive(Credits)).slots > 0
        assert not (await peer.receive(Heartbeat)).is_draining


@pytest.mark.feature("O2.draining")
@pytest.mark.parametrize("number", [TERM, INT])
async def test_the_first_signal_drains_and_the_runner_ends_with_its_last_job(
    runners: Runners, number: signal.Signals
) -> None:
    runners.hub.welcome = msgspec.structs.replace(runners.hub.welcome, heartbeat_seconds=3600)
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    runner.signal(number)
    assert await peer.receive(Heartbeat) == Heartbeat(
        __version__, True, refs(("job_1", 1)), drain_reason=signal.Signals(number).name
    )
    assert peer.received(Credits)[-1].slots == 0
    await executor.tell("finish")
    assert await runner.ended() == 0
    assert not (runners.attempts / "job_1.1").exists()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await peer.closed.wait()


async def test_the_second_signal_leaves_at_once_and_executors_go_on(runners: Runners) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    runner.signal(TERM)
    while not (await peer.receive(Heartbeat)).is_draining:
        pass
    runner.signal(TERM)
    assert await runner.ended() == 0
    assert (await executor.tell("told"))["told"] == []
    assert (runners.attempts / "job_1.1" / "pid").exists()


async def test_a_runner_that_is_started_beside_one_that_drains_says_what_can_be_done(runners: Runners) -> None:
    """Symptom: «another runner uses …: stop it», to somebody who had just stopped it, and no runner was left afterwards."""
    first, peer = await runners.connected()
    executor = await runners.grant(peer)
    second = await runners.start()
    assert await second.ended() == errors.Conflict.exit_code
    assert f"another runner (process {first.pid}) uses {runners.directory}: stop it" in second.output
    first.signal(TERM)
    while not (await peer.receive(Heartbeat)).is_draining:
        pass
    third = await runners.start()
    assert await third.ended() == errors.Conflict.exit_code
    assert "It drains, and ends when its jobs have ended" in third.output
    assert f"After a second SIGTERM (kill {first.pid}) it ends at once; its jobs continue" in third.output
    said: list[str] = []
    with pytest.raises(errors.Conflict, match="It drains"):
        await asyncio.to_thread(instance.wait_for_drain, str(runners.directory), 0.1, said.append)
    waiting = asyncio.create_task(
        asyncio.to_thread(instance.wait_for_drain, str(runners.directory), TIMEOUT_SECONDS, said.append)
    )
    while len(said) < 2:
        await asyncio.sleep(0.01)
    assert said[1].startswith("waiting for up to 1 m 00 s: another runner")
    await executor.tell("finish")
    assert await first.ended() == 0
    await waiting
    assert len(said) == 2
    await runners.connected()


def test_a_directory_that_nobody_uses_is_not_waited_for(tmp_path: Path) -> None:
    instance.wait_for_drain(str(tmp_path / "new"), 60.0, pytest.fail)
    assert not (tmp_path / "new").exists()


async def test_an_idle_runner_ends_at_the_first_signal(runners: Runners) -> None:
    runner = await runners.start()
    await runners.hub.peer()
    runner.signal(TERM)
    assert await runner.ended() == 0


@pytest.mark.feature("R7.remove")
@pytest.mark.parametrize("is_welcome", [True, False])
async def test_a_removed_runner_says_so_and_ends(runners: Runners, is_welcome: bool) -> None:
    refusal = Refused("removed", "this runner has been removed", is_final=True)
    runners.hub.refusal = None if is_welcome else refusal
    runner = await runners.start()
    if is_welcome:
        peer = await runners.hub.peer()
        await peer.send(refusal)
    assert await runner.ended() == errors.Removed.exit_code
    assert "this runner has been removed" in runner.output


@pytest.mark.feature("O4.salvaged", "R7.remove")
async def test_a_removed_runner_stays_until_what_its_dead_executors_left_is_delivered(runners: Runners) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    await peer.send(Refused("removed", "this runner has been removed", is_final=True))
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await peer.closed.wait()
    await executor.kill()
    salvage = await runners.executors.next()
    assert salvage.facts["is_salvage"]
    await salvage.tell("finish")
    assert await runner.ended() == errors.Removed.exit_code
    assert not list(runners.attempts.iterdir())


async def test_a_built_in_runner_leaves_at_once_and_its_engines_see_only_what_is_allowed(
    runners: Runners, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**runners.environment, "DATABASE_URL": "postgres://secret", "LC_ALL": "C"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(
        "STAGE_proxy", runners.environment["SCRIPTED_EXECUTORS"]
    )  # the allow-list would keep the stage from us
    stop = Stop()
    config = runners.config(
        is_built_in=True, executor_entry="tests.runner.scripted_executor_process:run_behind_allow_list"
    )
    running = asyncio.create_task(run(config, stop))
    executor = await runners.grant(await runners.hub.peer())
    assert executor.facts["environment"]["LC_ALL"] == "C"
    for seen in (executor.facts["environment"], executor.facts["own_environment"]):
        assert "DATABASE_URL" not in seen
        assert "SCRIPTED_EXECUTORS" not in seen
    stop.exit_now()
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await running
    assert (await executor.tell("told"))["told"] == []
