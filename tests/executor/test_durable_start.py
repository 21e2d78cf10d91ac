"""No program of an attempt runs, and the server hears nothing of it, before a power cut could not hide that it has begun."""

import asyncio
import os

import pytest

from terracrew.attempt import exit_codes, files, ownership
from terracrew.protocol.spec import Hook, JobType, Step, StepHook
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


async def start(executors: ExecutorProcesses, disk: str, monkeypatch: pytest.MonkeyPatch) -> Executor:
    """Start a plan with a hook that leaves a file, in a process whose syncs are as the text says."""
    changed = executors.folder / "changed"
    changed.mkdir()
    (changed / "sitecustomize.py").write_text(disk)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(changed), *filter(None, [os.environ.get("PYTHONPATH")])]))
    leave = StepHook(Step.INIT, "before", Hook(command=["touch", str(executors.folder / "hook-ran")]), "acme")
    source = module(executors.folder / "source", main=MODULE)
    return await executors.run(executors.spec(JobType.PLAN, source, hooks=[leave]))


async def test_programs_and_the_connection_wait_for_the_disk(
    hub: FakeExecutorHub, executors: ExecutorProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = executors.folder / "gate"
    executor = await start(executors, SLOW_DISK.format(gate=str(gate)), monkeypatch)
    async with asyncio.timeout(BOUND_SECONDS):
        while ownership.process_of(executor.directory) is None:
            await asyncio.sleep(0.05)
    await asyncio.sleep(SETTLE_SECONDS)
    assert session(executor.process.pid) == [executor.process.pid]
    assert not (executor.directory / files.OUTBOX).exists()
    assert not hub.hellos
    gate.touch()
    assert await executor.exit_code() == exit_codes.DELIVERED, executor.said
    assert (executors.folder / "hook-ran").exists()
    assert hub.result.status == "SUCCEEDED"


async def test_an_attempt_whose_start_cannot_be_made_durable_does_nothing(
    hub: FakeExecutorHub, executors: ExecutorProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = await start(executors, BROKEN_DISK, monkeypatch)
    assert await executor.exit_code() == exit_codes.NOT_DURABLE
    assert "cannot be synced: [Errno 5] Input/output error" in executor.said
    assert not (executors.folder / "hook-ran").exists()
    assert not hub.hellos
