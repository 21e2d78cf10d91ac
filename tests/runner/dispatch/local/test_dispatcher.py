"""The dispatcher `local`, without a runner around it."""

import asyncio
import os
from pathlib import Path

import pytest

from terracrew.attempt import directories, ownership, process_record
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.local.dispatcher import Local
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.system import procfs
from tests.runner.conftest import ROOT, SOURCES, TIMEOUT_SECONDS, granted
from tests.runner.scripted_executors import ScriptedExecutors


@pytest.mark.feature("J9.escalation")
async def test_a_kill_ends_an_executor_that_does_not_heed_the_interrupt_and_its_engine(
    executors: ScriptedExecutors, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    local = Local(
        "tests.runner.scripted_executor_process:run",
        {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"},
        kill_seconds=0.1,
    )
    try:
        directory = directories.create(tmp_path, granted(), "http://server")
        handle = await local.start(
            ExecutorStart(
                "http://server",
                str(directory),
                cache_directory=str(tmp_path),
                workspaces=str(tmp_path),
                engine_directory=str(tmp_path),
                environment={"SCRIPTED_EXECUTORS": executors.path},
                granted=granted(),
            )
        )
        executor = await executors.next()
        engine = (await executor.tell(f"engine {tmp_path / 'fifo'}"))["engine"]
        async with asyncio.timeout(TIMEOUT_SECONDS):
            _, ended = await asyncio.gather(local.stop(handle, "kill"), local.watch(handle))
        assert ended.code == -9
        found = procfs.stat(engine)
        assert found is None or not found.is_alive
    finally:
        await local.close()


async def test_what_was_sealed_is_not_adopted(tmp_path: Path) -> None:
    directory = directories.create(tmp_path, granted(), "http://server")
    local = Local("tests.runner.scripted_executor_process:run", {**os.environ, "PYTHONPATH": f"{ROOT}:{SOURCES}"})
    try:
        with pytest.raises(NotStarted):
            local.adopt(directory)
        assert not ownership.sign(directory, process_record.of(os.getpid()))
    finally:
        await local.close()
