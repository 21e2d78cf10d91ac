"""The contract of a dispatcher as tests: inherit `DispatcherContract` in a pytest file, and say how one is opened.

Every test runs a real executor with a real OpenTofu against a fake hub. The tests are coroutines: run them with pytest-asyncio
and `asyncio_mode = "auto"`.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.attempt import delivered, directories, exit_codes, files
from terracrew.protocol.events import Stream
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import JobType
from terracrew.protocol.start import ExecutorStart
from terracrew.runner.dispatch.protocol import AttemptEnd, Dispatcher, NotStarted
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

MAX_END_SECONDS = 120.0
_STILL_THERE_SECONDS = 0.5


class DispatcherContract:
    delivers_by_itself = False
    """Whether what a dead executor left is delivered where it ran, because it cannot be reached afterwards."""

    def opened(self, folder: Path) -> Dispatcher[Any]:
        """Open a dispatcher as a runner of one instance does. A test opens a second one after it has closed the first."""
        raise NotImplementedError

    def kill_executor(self, directory: Path) -> None:
        """Kill the executor of the attempt in this directory at once, and nothing that it has started."""
        raise NotImplementedError

    def remains(self, directory: Path) -> bool:
        """Whether anything of this attempt still runs, or is still kept by what runs it (a container, a cgroup)."""
        raise NotImplementedError

    @pytest.fixture
    async def hub(self) -> AsyncIterator[FakeExecutorHub]:
        hub = FakeExecutorHub()
        await hub.start()
        yield hub
        await hub.stop()

    @pytest.fixture
    async def dispatcher(self, tmp_path: Path) -> AsyncIterator[Dispatcher[Any]]:
        dispatcher = self.opened(tmp_path)
        yield dispatcher
        await dispatcher.close()

    @pytest.fixture
    def gate(self, tmp_path: Path) -> Gate:
        return Gate(tmp_path)

    @pytest.fixture
    def start(self, hub: FakeExecutorHub, tmp_path: Path, gate: Gate) -> ExecutorStart:
        """An apply whose engine stands at the gate, in the middle of its change."""
        processes = ExecutorProcesses(hub, tmp_path)
        processes.workspaces.mkdir()
        held = f'resource "terraform_data" "held" {{\n  {gate.provisioner()}\n}}\n'
        hub.archive = module(tmp_path / "source", main=held)  # a dispatcher may leave it to the executor to fetch it
        start = processes.start_of(processes.spec(JobType.APPLY, hub.archive))
        assert start.granted
        directory = directories.create(tmp_path, start.granted, start.server_url)
        return msgspec.structs.replace(start, directory=str(directory))

    async def test_an_executor_that_ends_by_itself(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub, gate: Gate
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.open()
        assert await ended(dispatcher, handle) == exit_codes.DELIVERED
        assert hub.result.status == "SUCCEEDED"
        assert delivered.is_done(Path(start.directory))
        assert not self.remains(Path(start.directory))

    async def test_an_attempt_is_not_over_while_the_engine_of_a_dead_executor_runs(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, gate: Gate
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.reached()
        self.kill_executor(Path(start.directory))
        watching = asyncio.create_task(dispatcher.watch(handle))
        await _is_pending(watching)
        await gate.open()
        async with asyncio.timeout(MAX_END_SECONDS):
            assert (await watching).code in (-9, None)
        assert delivered.is_done(Path(start.directory)) == self.delivers_by_itself
        assert not self.remains(Path(start.directory))

    @pytest.mark.parametrize("mode", ["interrupt", "kill"])
    async def test_an_attempt_that_is_stopped_is_over_when_everything_has_ended(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub, gate: Gate, mode: CancelMode
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.reached()
        async with asyncio.timeout(MAX_END_SECONDS):
            await asyncio.gather(dispatcher.stop(handle, mode), dispatcher.watch(handle))
        assert not self.remains(Path(start.directory))
        if mode == "interrupt":
            assert hub.result.status == "CANCELED"
            assert hub.states, "the engine had the time to save its state"

    async def test_a_cancel_after_the_step_ends_nothing(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub, gate: Gate
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.reached()
        await dispatcher.stop(handle, "after_step")
        await gate.open()
        assert await ended(dispatcher, handle) == exit_codes.DELIVERED
        assert hub.result.status == "SUCCEEDED"

    async def test_a_runner_that_is_started_again_finds_its_executor(
        self, start: ExecutorStart, hub: FakeExecutorHub, gate: Gate, tmp_path: Path
    ) -> None:
        first = self.opened(tmp_path)
        await first.start(start)
        await gate.reached()
        await first.close()
        second = self.opened(tmp_path)
        try:
            handle = second.adopt(Path(start.directory))
            watching = asyncio.create_task(second.watch(handle))
            await _is_pending(watching)
            await gate.open()
            async with asyncio.timeout(MAX_END_SECONDS):
                assert (await watching).code in (exit_codes.DELIVERED, None)
            assert hub.result.status == "SUCCEEDED"
            assert b"Stopping" not in hub.log(Stream.SYSTEM)
            assert not self.remains(Path(start.directory))
            assert await ended(second, second.adopt(Path(start.directory))) in (exit_codes.DELIVERED, None)
        finally:
            await second.close()

    async def test_an_executor_whose_record_cannot_be_read_is_not_taken_for_gone(
        self, start: ExecutorStart, gate: Gate, tmp_path: Path
    ) -> None:
        first = self.opened(tmp_path)
        await first.start(start)
        await gate.reached()
        await first.close()
        (Path(start.directory) / files.PID).write_bytes(b"damaged")
        second = self.opened(tmp_path)
        try:
            watching = asyncio.create_task(second.watch(second.adopt(Path(start.directory))))
            await _is_pending(watching)
            await gate.open()
            async with asyncio.timeout(MAX_END_SECONDS):
                await watching
            assert delivered.is_done(Path(start.directory))
        finally:
            await second.close()

    async def test_an_attempt_that_was_never_started_is_not_adopted_and_cannot_start_later(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub
    ) -> None:
        with pytest.raises(NotStarted):
            await dispatcher.watch(dispatcher.adopt(Path(start.directory)))
        try:
            code = await ended(dispatcher, await dispatcher.start(start))
        except NotStarted:
            pass
        else:
            assert code == exit_codes.IN_USE
        assert not hub.has_result


async def ended(dispatcher: Dispatcher[Any], handle: Any) -> int | None:
    async with asyncio.timeout(MAX_END_SECONDS):
        return (await dispatcher.watch(handle)).code


async def _is_pending(watching: asyncio.Task[AttemptEnd]) -> None:
    """Check that an attempt is not reported as over for a while."""
    done, _ = await asyncio.wait({watching}, timeout=_STILL_THERE_SECONDS)
    assert not done, "the attempt was reported as over, but its engine runs"
