"""No program of an attempt runs, and the server hears nothing of it, before a power cut could not hide that it has begun."""

import asyncio
import os
from pathlib import Path

import pytest

from terracrew.attempt import exit_codes, files
from terracrew.protocol import events
from terracrew.protocol.events import Fact, Kind, StepStatus
from terracrew.protocol.hooks import Hook
from terracrew.protocol.spec import JobType, Step, StepHook
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, module, session
from terracrew.testing.fake_executor_hub import FakeExecutorHub

pytestmark = [pytest.mark.engine, pytest.mark.feature("O4.salvaged")]

MODULE = 'resource "terraform_data" "it" { input = "made" }\n'
BOUND_SECONDS = 60
SETTLE_SECONDS = 0.5
SLOW_DISK = """
import os, time
sync = os.fsync
def fsync(descriptor):
    while not os.path.exists({gate!r}):
        time.sleep(0.01)
    sync(descriptor)
os.fsync = fsync
"""
BROKEN_DISK = """
import errno, os
def fsync(descriptor):
    raise OSError(errno.EIO, "Input/output error")
os.fsync = fsync
"""


async def start(
    executors: ExecutorProcesses, disk: str, monkeypatch: pytest.MonkeyPatch, engine_version: str = ""
) -> Executor:
    """Start a plan with a hook that leaves a file, in a process whose syncs are as the text says."""
    changed = executors.folder / "changed"
    changed.mkdir()
    (changed / "sitecustomize.py").write_text(disk)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(changed), *filter(None, [os.environ.get("PYTHONPATH")])]))
    leave = StepHook(Step.INIT, "before", Hook(command=["touch", str(executors.folder / "hook-ran")]), "acme")
    source = module(executors.folder / "source", main=MODULE)
    spec = executors.spec(JobType.PLAN, source, hooks=[leave], engine_version=engine_version)
    return await executors.run(spec, is_engine_installed=True)


async def until_running(step: Step, directory: Path) -> None:
    """Wait until the executor has recorded that it is at this step."""
    async with asyncio.timeout(BOUND_SECONDS):
        while StepStatus(step, "RUNNING") not in facts(directory / files.OUTBOX):
            await asyncio.sleep(0.05)


def facts(outbox: Path) -> list[Fact]:
    written = outbox.read_bytes() if outbox.exists() else b""
    return [events.fact_of(record) for record in events.unpack(written) if record.kind == Kind.FACT]


async def test_programs_and_the_connection_wait_for_the_disk(
    hub: FakeExecutorHub, executors: ExecutorProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = executors.folder / "gate"
    executor = await start(executors, SLOW_DISK.format(gate=str(gate)), monkeypatch)
    await until_running(Step.INIT, executor.directory)
    await asyncio.sleep(SETTLE_SECONDS)
    assert not (executors.folder / "hook-ran").exists()
    assert not hub.hellos
    gate.touch()
    assert await executor.exit_code() == exit_codes.DELIVERED, executor.said
    assert (executors.folder / "hook-ran").exists()
    assert hub.result.status == "SUCCEEDED"


async def test_an_engine_is_not_installed_before(
    hub: FakeExecutorHub, executors: ExecutorProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = executors.folder / "gate"
    monkeypatch.setenv("TERRACREW_TOFU_RELEASES", "http://127.0.0.1:1")
    executor = await start(executors, SLOW_DISK.format(gate=str(gate)), monkeypatch, engine_version="99.0.0")
    await until_running(Step.FETCH, executor.directory)
    await asyncio.sleep(SETTLE_SECONDS)
    assert session(executor.process.pid) == [executor.process.pid]
    gate.touch()
    assert await executor.exit_code() == exit_codes.DELIVERED, executor.said
    assert "99.0.0 could not be installed" in hub.result.message


async def test_an_attempt_whose_start_cannot_be_made_durable_does_nothing(
    hub: FakeExecutorHub, executors: ExecutorProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = await start(executors, BROKEN_DISK, monkeypatch)
    assert await executor.exit_code() == exit_codes.NOT_DURABLE
    assert "cannot be synced: [Errno 5] Input/output error" in executor.said
    assert not (executors.folder / "hook-ran").exists()
    assert not hub.hellos
