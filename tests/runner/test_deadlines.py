"""A runner whose end has a time: attempts that would end with it are interrupted before, with the reason, and the others are not."""

import asyncio
from collections.abc import Generator
from datetime import UTC, datetime, timedelta

import pytest

from terracrew.protocol.messages import Credits, Gone, HandBack, Heartbeat, Settled
from terracrew.runner import notices
from tests.runner import metadata_server
from tests.runner.conftest import TERM, Runners, granted
from tests.runner.metadata_server import MetadataServer


@pytest.fixture
def metadata(runners: Runners) -> Generator[MetadataServer]:
    with metadata_server.serving() as server:
        runners.environment[notices.ENDPOINT_VARIABLE] = server.url
        yield server


@pytest.mark.feature("O2.notices")
async def test_an_attempt_that_takes_longer_than_the_runner_has_is_interrupted_and_reported(runners: Runners) -> None:
    runner, peer = await runners.connected(stop_seconds=3.0)
    executor = await runners.grant(peer)
    runner.signal(TERM)
    while not (beat := await peer.receive(Heartbeat)).is_draining:
        pass
    assert beat.drain_reason == "SIGTERM"
    assert beat.ends_at is not None
    async with asyncio.timeout(10):
        while (await executor.tell("told"))["told"] != ["SIGTERM"]:
            await asyncio.sleep(0.05)
    await executor.tell("finish")
    report = await peer.receive(Gone)
    assert "its runner had to end: SIGTERM at" in report.reason
    assert report.is_delivered
    await peer.send(Settled("job_1", 1))
    assert await runner.ended() == 0


@pytest.mark.feature("O2.notices")
async def test_an_attempt_that_ends_in_time_is_left_alone(runners: Runners) -> None:
    runner, peer = await runners.connected(stop_seconds=3600.0)
    executor = await runners.grant(peer)
    runner.signal(TERM)
    while not (await peer.receive(Heartbeat)).is_draining:
        pass
    assert (await executor.tell("told"))["told"] == []
    await executor.tell("finish")
    assert await runner.ended() == 0
    assert not peer.received(Gone)


async def test_a_second_signal_interrupts_at_once_where_the_executors_end_with_the_runner(runners: Runners) -> None:
    """The second SIGTERM ended the runner, and in a container everything with it."""
    runner, peer = await runners.connected(stop_seconds=3600.0)
    executor = await runners.grant(peer)
    runner.signal(TERM)
    while not (await peer.receive(Heartbeat)).is_draining:
        pass
    runner.signal(TERM)
    async with asyncio.timeout(10):
        while (await executor.tell("told"))["told"] != ["SIGTERM"]:
            await asyncio.sleep(0.05)
    await executor.tell("finish")
    await peer.receive(Gone)
    await peer.send(Settled("job_1", 1))
    assert await runner.ended() == 0


async def test_a_grant_that_comes_after_the_signal_is_handed_back(runners: Runners) -> None:
    runner, peer = await runners.connected(stop_seconds=3600.0)
    await runners.grant(peer)
    runner.signal(TERM)
    while not (await peer.receive(Heartbeat)).is_draining:
        pass
    await peer.send(granted("job_2"))
    assert (await peer.receive(HandBack)).reason == "this runner ends soon: SIGTERM"


async def test_a_runner_whose_time_is_over_ends_although_an_attempt_has_not(runners: Runners) -> None:
    """It must not look as if it could still take care of it: the next process finds what the attempt left."""
    runner, peer = await runners.connected(stop_seconds=1.0)
    await runners.grant(peer)
    runner.signal(TERM)
    assert await runner.ended() == 0
    assert "1 attempts continue" in runner.output


@pytest.mark.feature("O2.notices")
async def test_a_spot_notice_drains_and_interrupts_early_enough_and_the_runner_stays(
    runners: Runners, metadata: MetadataServer
) -> None:
    runner, peer = await runners.connected()
    executor = await runners.grant(peer)
    ends = datetime.now(UTC) + timedelta(seconds=80)  # less than the engine may need, so it is interrupted at once
    metadata.pages["spot/instance-action"] = f'{{"action": "terminate", "time": "{ends:%Y-%m-%dT%H:%M:%SZ}"}}'
    while (beat := await peer.receive(Heartbeat)).drain_reason != "spot notice":
        pass
    assert beat.is_draining
    assert beat.ends_at == pytest.approx(ends.timestamp(), abs=1)
    async with asyncio.timeout(10):
        while (await executor.tell("told"))["told"] != ["SIGTERM"]:
            await asyncio.sleep(0.05)
    await executor.tell("finish")
    assert "its machine was taken away: spot notice at" in (await peer.receive(Gone)).reason
    await runners.settle(peer)
    await peer.receive(Heartbeat)
    await peer.receive(Heartbeat)
    assert peer.received(Credits)[-1].slots == 0
    runner.signal(TERM)
    assert await runner.ended() == 0


@pytest.mark.feature("O2.notices")
async def test_a_runner_that_is_started_again_before_its_machine_ends_takes_no_job(
    runners: Runners, metadata: MetadataServer
) -> None:
    metadata.pages["events/recommendations/rebalance"] = '{"noticeTime": "2026-11-18T12:00:00Z"}'
    _, peer = await runners.connected()
    assert (peer.hello.is_draining, peer.hello.drain_reason) == (True, "rebalance recommendation")
    await peer.receive(Heartbeat)
    await peer.receive(Heartbeat)
    assert not peer.received(Credits)
