"""The contract of a dispatcher as tests: inherit `DispatcherContract` in a pytest file, and say how one is opened.

Every test runs a real executor with a real OpenTofu against a fake hub, and every dispatcher runs every test. The tests are
coroutines: run them with pytest-asyncio and `asyncio_mode = "auto"`.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
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
from terracrew.system import procfs
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

MAX_END_SECONDS = 120.0
MAX_MANY_SECONDS = 540.0
_STILL_THERE_SECONDS = 0.5
_BACK_SECONDS = 3.0


class DispatcherContract:
    delivers_by_itself = False
    """Whether what a dead executor left is delivered where it ran, because it cannot be reached afterwards."""
    not_started_reason = ""
    """A part of what is said of an executor that `opened_without_image` cannot start."""
    starts_at_once = 50
    away_seconds = 60.0
    """How long nobody answers the dispatcher, where that takes nothing but time."""

    def opened(self, folder: Path, key: str = "") -> Dispatcher[Any]:
        """Open a dispatcher as a runner of one instance does. A test opens a second one after it has closed the first.

        `key` is that of another instance, on the same machine or daemon, in the same namespace or cluster.
        """
        raise NotImplementedError

    def opened_without_image(self, folder: Path) -> Dispatcher[Any]:
        """Open a dispatcher whose executors have no image; where there are no images, no program."""
        raise NotImplementedError

    def away(self, dispatcher: Dispatcher[Any]) -> AbstractAsyncContextManager[None]:
        """Keep what this dispatcher asks from answering: the daemon, the API, or the process that starts executors."""
        raise NotImplementedError

    def executor_pid(self, directory: Path) -> int:
        """Return the executor of the attempt in this directory, as this machine numbers it."""
        raise NotImplementedError

    def remains(self, directory: Path) -> bool:
        """Whether anything of this attempt still runs, or is still kept by what runs it (a container, a cgroup)."""
        raise NotImplementedError

    def is_kept(self, directory: Path) -> bool:
        """Whether anything of an attempt that has ended is left outside of the runner's directories: a volume, a Job, a Secret."""
        return self.remains(directory)

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
        os.kill(self.executor_pid(Path(start.directory)), signal.SIGKILL)
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

    async def test_an_engine_that_the_kernel_kills_is_reported_by_its_executor(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub, gate: Gate
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.reached()
        for process in procfs.descendants(self.executor_pid(Path(start.directory))):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                if Path(f"/proc/{process.pid}/comm").read_text().strip() == "tofu":
                    procfs.send(process, signal.SIGKILL)
        assert await ended(dispatcher, handle) == exit_codes.DELIVERED
        assert (hub.result.status, "signal 9" in hub.result.message) == ("FAILED", True), hub.result.message
        assert not self.remains(Path(start.directory))

    async def test_an_executor_without_an_image_is_not_started_and_the_reason_is_said(
        self, start: ExecutorStart, hub: FakeExecutorHub, tmp_path: Path
    ) -> None:
        dispatcher = self.opened_without_image(tmp_path)
        try:
            with pytest.raises(NotStarted, match=self.not_started_reason):
                await ended(dispatcher, await dispatcher.start(start))
            assert not hub.hellos
            assert not self.remains(Path(start.directory))
        finally:
            await dispatcher.close()

    async def test_an_attempt_is_not_over_while_nobody_answers_the_dispatcher(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub, gate: Gate
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.reached()
        watching = asyncio.create_task(dispatcher.watch(handle))
        await _is_pending(watching)
        async with self.away(dispatcher):
            await _is_pending(watching, self.away_seconds)
        await _is_pending(watching, _BACK_SECONDS)
        await gate.open()
        async with asyncio.timeout(MAX_END_SECONDS):
            assert (await watching).code in (exit_codes.DELIVERED, None)
        assert hub.result.status == "SUCCEEDED"
        assert not self.remains(Path(start.directory))

    async def test_an_executor_delivers_by_itself_if_its_runner_never_returns(
        self, start: ExecutorStart, hub: FakeExecutorHub, gate: Gate, tmp_path: Path
    ) -> None:
        dispatcher = self.opened(tmp_path)
        await dispatcher.start(start)
        await gate.reached()
        await dispatcher.close()
        await gate.open()
        await hub.until(lambda: hub.has_result)
        assert hub.result.status == "SUCCEEDED"
        assert hub.states
        async with asyncio.timeout(MAX_END_SECONDS):
            while await asyncio.to_thread(self.remains, Path(start.directory)):
                await asyncio.sleep(0.1)

    async def test_what_a_crashed_runner_left_is_removed_by_the_next_one(
        self, start: ExecutorStart, gate: Gate, tmp_path: Path
    ) -> None:
        first = self.opened(tmp_path)
        handle = await first.start(start)
        await gate.open()
        assert await ended(first, handle) == exit_codes.DELIVERED
        await first.close()
        second = self.opened(tmp_path)
        try:
            await second.place.sweep(list)
            async with asyncio.timeout(MAX_END_SECONDS):
                while await asyncio.to_thread(self.is_kept, Path(start.directory)):
                    await asyncio.sleep(0.1)
        finally:
            await second.close()

    async def test_two_runners_do_not_touch_each_others_executors(
        self, dispatcher: Dispatcher[Any], start: ExecutorStart, hub: FakeExecutorHub, gate: Gate, tmp_path: Path
    ) -> None:
        handle = await dispatcher.start(start)
        await gate.reached()
        watching = asyncio.create_task(dispatcher.watch(handle))
        other = self.opened(tmp_path, "another instance")
        try:
            await other.place.sweep(list)
            await _is_pending(watching)
        finally:
            await other.close()
        await gate.open()
        async with asyncio.timeout(MAX_END_SECONDS):
            end = await watching
        assert end == AttemptEnd(exit_codes.DELIVERED), end
        assert hub.result.status == "SUCCEEDED"
        assert b"Stopping" not in hub.log(Stream.SYSTEM)

    async def test_many_executors_start_at_once(self, dispatcher: Dispatcher[Any], tmp_path: Path) -> None:
        archive = module(tmp_path / "many", main='resource "terraform_data" "one" {}\n')
        hubs = [FakeExecutorHub() for _ in range(self.starts_at_once)]
        await asyncio.gather(*(hub.start() for hub in hubs))
        (tmp_path / "workspaces").mkdir(exist_ok=True)
        starts = list[ExecutorStart]()
        for number, hub in enumerate(hubs, start=2):
            hub.archive = archive
            processes = ExecutorProcesses(hub, tmp_path)
            processes.engine_directory = tmp_path / f"engine-files-{number}"
            start = processes.start_of(
                processes.spec(JobType.PLAN, archive, job_id=f"job_{number}", module_id=f"mod_{number}")
            )
            assert start.granted
            directory = directories.create(tmp_path, start.granted, start.server_url)
            starts.append(msgspec.structs.replace(start, directory=str(directory)))
        try:
            async with asyncio.timeout(MAX_MANY_SECONDS):
                handles = await asyncio.gather(*(dispatcher.start(start) for start in starts))
                ends = await asyncio.gather(*(dispatcher.watch(handle) for handle in handles))
            assert set(ends) == {AttemptEnd(exit_codes.DELIVERED)}, set(ends)
            assert {(hub.result.status, hub.result.message) for hub in hubs} == {("SUCCEEDED", "")}
            assert not any(self.remains(Path(start.directory)) for start in starts)
        finally:
            await asyncio.gather(*(hub.stop() for hub in hubs))


async def ended(dispatcher: Dispatcher[Any], handle: Any) -> int | None:
    async with asyncio.timeout(MAX_END_SECONDS):
        return (await dispatcher.watch(handle)).code


async def _is_pending(watching: asyncio.Task[AttemptEnd], seconds: float = _STILL_THERE_SECONDS) -> None:
    """Check that an attempt is not reported as over for a while."""
    done, _ = await asyncio.wait({watching}, timeout=seconds)
    assert not done, "the attempt was reported as over, but its engine runs"
