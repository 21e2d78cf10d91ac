"""The notices of EC2 as AWS's own mock of the instance metadata sends them, with tokens required."""

import asyncio
import socket
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from terracrew.protocol.messages import Gone, Heartbeat
from terracrew.runner import notices
from terracrew.runner.departure import Departure, Departures
from terracrew.runner.notices import Ec2Metadata, NoticeWatch
from tests.machine import platforms
from tests.runner.conftest import Runners

pytestmark = [pytest.mark.platform("ec2-metadata"), pytest.mark.timeout(300)]


@asynccontextmanager
async def mocked(home: Path, *arguments: str) -> AsyncGenerator[str]:
    """Start the mock with these arguments, and return its address when it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [platforms.need("ec2-metadata"), *arguments, "-n", "127.0.0.1", "-p", str(port), "--imdsv2"]
    process = subprocess.Popen(
        command, env={"HOME": str(home)}, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(30):
            while True:
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def announced(home: Path, *arguments: str) -> Departure | None:
    departures = Departures()
    async with mocked(home, *arguments) as address:
        await NoticeWatch(Ec2Metadata(address), departures, gives_up=False).step()
    return departures.current


def at(seconds: float) -> str:
    return f"{datetime.now(UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


@pytest.mark.feature("O2.notices")
async def test_each_notice_of_the_mock_is_understood(tmp_path: Path) -> None:
    spot = await announced(tmp_path, "spot", "--action", "terminate")
    assert spot is not None
    assert spot.reason == "spot notice"
    assert spot.ends_at == pytest.approx(spot.noticed_at + 120, abs=3)
    rebalance = await announced(tmp_path, "spot", "--mock-delay-sec", "3600")
    assert rebalance is not None
    assert (rebalance.reason, rebalance.ends_at) == ("rebalance recommendation", None)
    soon = await announced(tmp_path, "events", "--code", "instance-retirement", "--not-before", at(600))
    assert soon is not None
    assert soon.reason == "scheduled retirement"
    assert soon.ends_at == pytest.approx(soon.noticed_at + 600, abs=3)
    assert await announced(tmp_path, "events", "--code", "system-reboot", "--not-before", at(86_400)) is None
    assert await announced(tmp_path, "events", "--code", "system-reboot", "--state", "completed") is None
    scaled_in = await announced(tmp_path, "asglifecycle")
    assert scaled_in is not None
    assert (scaled_in.reason, scaled_in.ends_at) == ("termination by its Auto Scaling group", None)


async def test_a_spot_notice_whose_time_moves_with_each_request_has_the_first_one(tmp_path: Path) -> None:
    departures = Departures()
    async with mocked(tmp_path, "spot") as address:
        follower = NoticeWatch(Ec2Metadata(address), departures, gives_up=False)
        await follower.step()
        first = departures.current
        await asyncio.sleep(1.1)
        await follower.step()
    assert first is not None
    assert departures.current == first


@pytest.mark.feature("O2.notices")
async def test_a_runner_on_an_instance_that_is_taken_back_interrupts_its_job(runners: Runners, tmp_path: Path) -> None:
    async with mocked(
        tmp_path, "spot", "--time", at(60), "--mock-delay-sec", "3", "--rebalance-delay-sec", "3600"
    ) as address:
        runners.environment[notices.ENDPOINT_VARIABLE] = address
        _, peer = await runners.connected()
        executor = await runners.grant(peer)
        while (await peer.receive(Heartbeat)).drain_reason != "spot notice":
            pass
        async with asyncio.timeout(10):
            while (await executor.tell("told"))["told"] != ["SIGTERM"]:
                await asyncio.sleep(0.05)
        await executor.tell("finish")
        assert "its machine was taken away: spot notice at" in (await peer.receive(Gone)).reason
