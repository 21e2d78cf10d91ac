"""What a runner costs: memory while idle, and the time from a start to a running executor."""

import os
import time
from pathlib import Path

import pytest

from terracrew.protocol.messages import Heartbeat
from tests.machine import cgroup
from tests.runner.conftest import Runners, granted, until_gone

MEMORY_MB = 42
ENDED_ATTEMPTS = 50
END_CPU_MS = 8  # reading all of /proc alone took 11 ms on a machine with few processes
START_MS = 250  # on a loaded machine; a quiet one needs a tenth of it


async def test_an_idle_runner_is_small(runners: Runners) -> None:
    runner, peer = await runners.connected()
    for _ in range(3):
        await peer.receive(Heartbeat)
    status = Path(f"/proc/{runner.pid}/status").read_text()
    resident_mb = int(status.split("VmRSS:")[1].split()[0]) / 1024
    print(f"idle runner: {resident_mb:.1f} MB")
    assert resident_mb <= MEMORY_MB


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can see what a process has loaded that forbids inspection")
async def test_an_idle_runner_has_not_loaded_what_checked_its_settings(runners: Runners) -> None:
    runner, peer = await runners.connected()
    await peer.receive(Heartbeat)
    loaded = Path(f"/proc/{runner.pid}/maps").read_text()
    assert "pydantic" not in loaded
    assert "cryptography" not in loaded  # the engines need it, and only executors need the engines


async def test_an_executor_runs_a_moment_after_its_grant(runners: Runners) -> None:
    _, peer = await runners.connected()
    await (await runners.grant(peer, "job_0")).tell("finish")  # the helper has imported everything by then
    taken: list[float] = []
    for number in range(1, 11):
        sent = time.clock_gettime(time.CLOCK_MONOTONIC)
        await peer.send(granted(f"job_{number}"))
        executor = await runners.executors.next()
        taken.append((executor.facts["started_at"] - sent) * 1000)
        await executor.tell("finish")
    taken.sort()
    print(f"grant → executor runs: p50 {taken[5]:.1f} ms, max {taken[-1]:.1f} ms")
    assert taken[5] < START_MS


@pytest.mark.parametrize("mechanism", ["cgroup", "subreaper"])
async def test_many_attempts_that_end_at_once_cost_little(runners: Runners, mechanism: str) -> None:
    """Symptom: for each attempt that ended, the runner read all of /proc."""
    setting = str(cgroup.parent()) if mechanism == "cgroup" else "off"
    runner, peer = await runners.connected(capacity=ENDED_ATTEMPTS, cgroup=setting)
    executors = [await runners.grant(peer, f"job_{number}") for number in range(ENDED_ATTEMPTS)]
    before = _cpu_ms(runner.pid)
    for executor in executors:
        await executor.tell("finish")
    for number in range(ENDED_ATTEMPTS):
        await until_gone(runners.attempts / f"job_{number}.1")
    taken = (_cpu_ms(runner.pid) - before) / ENDED_ATTEMPTS
    print(f"an attempt that ends, by {mechanism}: {taken:.1f} ms of the runner's CPU")
    assert taken < END_CPU_MS


def _cpu_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 / os.sysconf("SC_CLK_TCK")
