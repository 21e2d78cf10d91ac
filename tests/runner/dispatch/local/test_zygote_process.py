"""The zygote of a running runner: it knows none of the runner's secrets, is replaced when it dies, and ends with the runner."""

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path

import pytest

from terracrew.protocol.messages import Heartbeat
from terracrew.system import procfs
from tests.builders.fake_runner_hub import Peer
from tests.runner.conftest import TIMEOUT_SECONDS, RunnerProcess, Runners

TOKEN = "a-token-that-is-in-no-other-process"


async def zygote_of(runner: RunnerProcess) -> int:
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not (found := procfs.children(runner.pid)):
            await asyncio.sleep(0.01)
    [pid] = found
    return pid


async def connected(runners: Runners) -> tuple[RunnerProcess, Peer, int]:
    runner, peer = await runners.connected(client_secret=TOKEN)
    await peer.receive(Heartbeat)
    return runner, peer, await zygote_of(runner)


def holds(pid: int, text: bytes) -> bool:
    """Whether a text is anywhere in the memory of a process."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb") as memory:
        for line in maps:
            begin, end, rights = re.split("[- ]", line)[:3]
            with contextlib.suppress(OSError, ValueError, OverflowError):  # some special regions cannot be read
                memory.seek(int(begin, 16))
                if rights.startswith("r") and text in memory.read(int(end, 16) - int(begin, 16)):
                    return True
    return False


@pytest.mark.skipif(os.getuid() != 0, reason="only root can read the memory of these processes")
async def test_it_has_no_secret_of_the_runner(runners: Runners, tmp_path: Path) -> None:
    (tmp_path / "secret").touch()
    with (tmp_path / "secret").open() as file:
        runners.inherited = [file.fileno()]
        runner, _, zygote = await connected(runners)
    assert holds(runner.pid, TOKEN.encode())
    assert not holds(zygote, TOKEN.encode())
    files = [os.readlink(each) for each in Path(f"/proc/{zygote}/fd").iterdir()]
    assert sorted(one.split(":")[0] for one in files) == ["/dev/null", "/dev/null", str(runner.log), "socket"]
    assert "terracrew.runner.dispatch.local.zygote" in Path(f"/proc/{zygote}/cmdline").read_text()


async def test_another_one_takes_its_place_when_it_is_killed(runners: Runners) -> None:
    runner, peer, zygote = await connected(runners)
    first = await runners.grant(peer, "job_1")
    os.kill(zygote, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while "the process that starts executors has died" not in runner.output:
            await asyncio.sleep(0.01)
    second = await runners.grant(peer, "job_2")
    assert await zygote_of(runner) != zygote
    for executor in (first, second):
        await executor.tell("finish")


async def test_it_ends_with_a_runner_that_is_killed_before_it_has_connected(runners: Runners) -> None:
    runner = await runners.start()
    zygote = await zygote_of(runner)
    os.kill(runner.pid, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while (found := procfs.stat(zygote)) is not None and found.is_alive:
            await asyncio.sleep(0.01)
