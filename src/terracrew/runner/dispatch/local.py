"""Executors as processes of this machine, each in a session of its own, so that they outlive their runner."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from terracrew.protocol.messages import CancelMode
from terracrew.protocol.start import ExecutorStart
from terracrew.runner import attempts, processes
from terracrew.runner.dispatch.helper import Helper, HelperError
from terracrew.runner.dispatch.protocol import NotStarted
from terracrew.runner.processes import ProcessRecord

log = logging.getLogger(__name__)

_SCAN_SECONDS = 0.25
_EXIT_CODE_SECONDS = 5.0
KILL_SECONDS = 15.0
"""How long an executor that is to be killed may take to end its engine in good order."""


class Handle(msgspec.Struct):
    process: ProcessRecord
    pidfd: int | None
    """None where the process was gone when it was adopted."""
    exit_code: asyncio.Future[int | None] | None = None


class Local:
    """The dispatcher `local`."""

    def __init__(
        self,
        entry: str,
        environment: Mapping[str, str],
        engine_paths: Sequence[str] = (),
        *,
        kill_seconds: float = KILL_SECONDS,
    ) -> None:
        self.helper = Helper(entry, environment, engine_paths)
        self._kill_seconds = kill_seconds

    async def start(self, start: ExecutorStart) -> Handle:
        try:
            forked = await self.helper.fork(start)
        except HelperError as error:
            if start.is_salvage:
                raise NotStarted(str(error)) from error
            try:
                return self.adopt(Path(start.directory))  # the answer may have been lost, not the start
            except NotStarted:
                raise NotStarted(str(error)) from error
        return Handle(forked.process, forked.pidfd, forked.exit_code)

    def adopt(self, directory: Path) -> Handle:
        process = attempts.process_of(directory)
        if process is None:
            if attempts.seal(directory):
                raise NotStarted("the runner stopped before the executor was started")
            process = attempts.process_of(directory)
            assert process is not None
        if process == attempts.UNKNOWN_PROCESS:
            workspace = (directory / "workspace").resolve()
            process = processes.found_in([directory.resolve(), workspace]) or process
        return Handle(process, _open(process))

    async def watch(self, handle: Handle) -> int | None:
        code = None
        if handle.pidfd is not None:
            await _ended(handle.pidfd)
            if handle.exit_code is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_EXIT_CODE_SECONDS):
                        code = await handle.exit_code
            os.close(handle.pidfd)
            handle.pidfd = None
        # An engine whose executor is dead may finish: it changes the world, and its state is still to be collected.
        if await asyncio.to_thread(_has_members, handle.process):
            _signal_session(
                handle.process, signal.SIGCONT
            )  # it may have been paused, and nobody else is left to resume it
        while await asyncio.to_thread(_has_members, handle.process):  # noqa: ASYNC110  (a session's end is no event)
            await asyncio.sleep(_SCAN_SECONDS)
        return code

    async def stop(self, handle: Handle, mode: CancelMode) -> None:
        if mode == "after_step":
            return  # an executor that is cut off starts no mutating step, and hears of it when it is back
        if handle.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle.pidfd, signal.SIGTERM)
        clock, is_orphan_told = asyncio.get_running_loop().time, False
        deadline = clock() + self._kill_seconds
        while await asyncio.to_thread(_has_members, handle.process):
            if mode == "kill" and clock() > deadline:
                _signal_session(handle.process, signal.SIGKILL)
            elif not is_orphan_told and not processes.is_alive(handle.process):
                # The executor was dead, or died of it, and could pass nothing on.
                _signal_session(handle.process, signal.SIGINT)
                is_orphan_told = True
            await asyncio.sleep(_SCAN_SECONDS)

    async def close(self) -> None:
        await self.helper.close()


def _open(process: ProcessRecord) -> int | None:
    if process == attempts.UNKNOWN_PROCESS:
        return None
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return None
    if processes.is_alive(process):  # asked after the descriptor was open: the number may be somebody else's by now
        return pidfd
    os.close(pidfd)
    return None


async def _ended(pidfd: int) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(pidfd)


def _has_members(process: ProcessRecord) -> bool:
    return next(processes.session_of(process), None) is not None


def _signal_session(process: ProcessRecord, number: signal.Signals) -> None:
    for pid in processes.session_of(process):
        log.info("sending %s to process %d of session %d", number.name, pid, process.pid)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
