"""The process that executors are forked from."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from terracrew.attempt import directories, exit_codes, ownership
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.local.zygote_client import Forked, ZygoteClient
from tests.runner.conftest import ROOT, SOURCES, TIMEOUT_SECONDS, granted
from tests.runner.scripted_executors import ScriptedExecutors


@pytest.fixture
async def helper() -> AsyncIterator[ZygoteClient]:
    made = ZygoteClient("tests.runner.scripted_executor_process:run", {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"})
    yield made
    await made.close()


@pytest.fixture
def start(executors: ScriptedExecutors, tmp_path: Path) -> ExecutorStart:
    directory = directories.create(tmp_path, granted(), "http://server")
    environment = {"SCRIPTED_EXECUTORS": executors.path}
    return ExecutorStart(
        "http://server", str(directory), str(tmp_path), str(tmp_path), str(tmp_path), environment, granted()
    )


async def _exit_code(forked: Forked) -> int | None:
    os.close(forked.pidfd)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await forked.exit_code


async def test_exit_codes_and_signals_are_reported(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    forked = await helper.fork(start)
    executor = await executors.next()
    assert forked.process.pid == executor.pid
    assert ownership.process_of(Path(start.directory)) == forked.process
    await executor.tell("exit 42")
    assert await _exit_code(forked) == 42


async def test_a_signal_is_reported_as_a_negative_code(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    forked = await helper.fork(start)
    await (await executors.next()).kill()
    assert await _exit_code(forked) == -9


async def test_what_an_executor_raises_is_in_its_own_log(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    forked = await helper.fork(start)
    await (await executors.next()).tell("stumble")
    assert await _exit_code(forked) == exit_codes.CRASHED
    assert "RuntimeError: told to ['stumble']" in (Path(start.directory) / "executor.log").read_text()


async def test_an_executor_that_cannot_write_its_traceback_ends_at_once(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    """Symptom: it left the fork by an exception, and waited for its threads before it ended."""
    forked = await helper.fork(start)
    await (await executors.next()).tell("stumble-on-full-disk")
    assert await _exit_code(forked) == exit_codes.CRASHED


async def test_an_attempt_that_was_handed_back_does_not_start_any_more(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    assert ownership.forbid_start(Path(start.directory))
    assert await _exit_code(await helper.fork(start)) == exit_codes.IN_USE
    assert executors.is_empty


async def test_of_two_salvages_of_one_attempt_only_one_touches_it(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    salvage = msgspec.structs.replace(start, granted=None, is_salvage=True)
    first = await helper.fork(salvage)
    executor = await executors.next()
    assert await _exit_code(await helper.fork(salvage)) == exit_codes.IN_USE
    assert executors.is_empty
    await executor.tell("exit 0")
    assert await _exit_code(first) == 0


async def test_a_helper_whose_runner_is_gone_ends_and_its_children_go_on(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    pid = helper.pid
    assert pid
    forked = await helper.fork(start)
    executor = await executors.next()
    await helper.close()
    assert not Path(f"/proc/{pid}").exists()
    assert await _exit_code(forked) is None
    assert (await executor.tell("told"))["told"] == []
    await executor.tell("finish")


async def test_an_interrupt_raises_nothing_in_an_executor_that_was_just_forked(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    """A traceback that ended with `os.setsid() KeyboardInterrupt` was in the log of a runner."""
    forked = await helper.fork(start)
    await (await executors.next()).tell("finish")
    await _exit_code(forked)
    status = Path(f"/proc/{helper.pid}/status").read_text()
    caught = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("SigCgt"))
    assert not caught >> (signal.SIGINT - 1) & 1


async def test_a_specification_larger_than_a_pipe_arrives_whole(
    helper: ZygoteClient, executors: ScriptedExecutors, start: ExecutorStart
) -> None:
    start.environment["LARGE"] = "x" * (4 << 20)
    forked = await helper.fork(start)
    executor = await executors.next()
    assert len(executor.facts["environment"]["LARGE"]) == 4 << 20
    await executor.tell("exit 0")
    await _exit_code(forked)
