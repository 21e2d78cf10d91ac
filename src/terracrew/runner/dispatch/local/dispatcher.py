"""The dispatcher `local`: executors are processes of this machine, each in its own session, so they outlive the runner."""

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from terracrew.attempt import delivered, files, ownership, process_record
from terracrew.attempt.process_record import ProcessIdentity, ProcessRecord
from terracrew.errors import Invalid
from terracrew.protocol.messages import CancelMode
from terracrew.protocol.spec import JobLimits
from terracrew.protocol.start import INTERRUPT_SECONDS, ExecutorStart
from terracrew.runner.config import RunnerConfig
from terracrew.runner.departure import Ending
from terracrew.runner.dispatch.local.zygote_client import ZygoteClient, ZygoteError
from terracrew.runner.dispatch.protocol import AttemptEnd, NotStarted, RunnerDisk, of_another
from terracrew.runner.processes import cgroups, members
from terracrew.runner.processes.cgroups import Cgroups, NoCgroups

log = logging.getLogger(__name__)

_EXIT_CODE_SECONDS = 5.0
KILL_SECONDS = 15.0
"""How long an executor may take to end its engine before all processes of the attempt are killed."""
_PROMPT_END_SECONDS = 0.25
"""A process that outlives its executor by this time may have been paused by the executor, so it is resumed."""
_KILL_AGAIN_SECONDS = 1.0


class Handle(msgspec.Struct):
    process: ProcessRecord
    pidfd: int | None
    """None if the process had ended when it was adopted."""
    exit_code: asyncio.Future[int | None] | None = None


class Local:
    """The dispatcher `local`."""

    ends_with: Ending = "runner"
    """Executors outlive the runner's process, but not its container."""

    def __init__(
        self,
        entry: str,
        environment: Mapping[str, str],
        engine_paths: Sequence[str] = (),
        *,
        kill_seconds: float = KILL_SECONDS,
        cgroup: str = "off",
    ) -> None:
        """`cgroup` is the setting `working_directory.cgroup`: the cgroup below which each attempt gets its own."""
        self.zygote = ZygoteClient(entry, environment, engine_paths)
        self._kill_seconds, self._cgroup_setting = kill_seconds, cgroup
        self._cgroups: Cgroups | None = None
        self.place = RunnerDisk()

    def use_instance(self, key: str) -> None:
        try:
            found = cgroups.find_cgroups(self._cgroup_setting, key)
        except NoCgroups as reason:
            log.info("attempts are tracked by sessions and descendants, not by cgroups: %s", reason)
        else:
            self.track_in(found)
            log.info("attempts are tracked by cgroups under %s", found.root)
            if missing := sorted(set(cgroups.CONTROLLERS) - found.controllers):
                log.info(
                    "limits of jobs are watched, and not enforced by the kernel: %s has no controller for %s. With systemd, give "
                    "the unit Delegate=yes and DelegateSubgroup=runner, and name its cgroup in working_directory.cgroup",
                    found.root.parent,
                    ", ".join(missing),
                )

    def track_in(self, cgroups: Cgroups) -> None:
        """Start every attempt in a cgroup of its own from now on."""
        self._cgroups = cgroups

    async def engines(self) -> None:
        return None

    async def start(self, start: ExecutorStart) -> Handle:
        limits = start.granted.spec.limits if start.granted else None
        cgroup = self.make_cgroup(Path(start.directory).name, limits)
        try:
            forked = await self.zygote.fork(start, cgroup)
        except ZygoteError as error:
            try:
                if not start.is_salvage:
                    # The executor may have been started although the answer was lost.
                    return self.adopt(Path(start.directory))
            except NotStarted:
                pass
            _remove_cgroup(cgroup)
            raise NotStarted(str(error)) from error
        return Handle(forked.process, forked.pidfd, forked.exit_code)

    def adopt(self, directory: Path) -> Handle:
        if (directory / files.CONTAINER).exists() and not delivered.is_done(directory):
            raise of_another(directory)
        process = ownership.process_of(directory)
        if process is None:
            if ownership.forbid_start(directory):
                raise NotStarted("the runner stopped before the executor was started")
            process = ownership.process_of(directory)
            assert process is not None
        if process == ownership.UNKNOWN_PROCESS:
            process = self._search(directory) or process
        return Handle(process, _open(process))

    def _search(self, directory: Path) -> ProcessRecord | None:
        """Return a living process of an attempt whose record cannot be read: by its cgroup, by its lock, or by its working directory."""
        if self._cgroups and (path := self._cgroups.find(directory.name)):
            for pid in cgroups.processes(str(path)):
                with contextlib.suppress(ProcessLookupError):
                    return process_record.of(pid, cgroup=str(path))
        # The working directory of an executor is hidden from other processes, but the holder of its lock is not.
        if holder := members.holder_of(directory / files.LOCK):
            return holder
        return members.found_in([directory.resolve(), (directory / files.WORKSPACE).resolve()])

    def make_cgroup(self, name: str, limits: JobLimits | None = None) -> str:
        try:
            return str(self._cgroups.make(name, limits)) if self._cgroups else ""
        except OSError as error:
            log.warning("%s is tracked without a cgroup: %s", name, error)
            return ""

    async def watch(self, handle: Handle) -> AttemptEnd:
        if handle.pidfd is not None:
            await members.pidfd_ended(handle.pidfd)
            os.close(handle.pidfd)
            handle.pidfd = None
        # The engine of a dead executor may finish, because stopping it would leave a change half made. Its state is collected later.
        if not await _end_within(handle.process, _PROMPT_END_SECONDS):
            # Its executor may have paused it, and no other process would resume it.
            members.send(handle.process, signal.SIGCONT)
            await members.ended(handle.process)
        code = await _exit_code(handle)
        if code != 0 and not handle.process.cgroup:
            # An executor ends by itself only after its descendants, but it may have been killed together with its subreaper.
            await members.session_ended(handle.process)
        _remove_cgroup(handle.process.cgroup)
        return AttemptEnd(code)

    async def stop(self, handle: Handle, mode: CancelMode) -> None:
        if mode == "after_step":
            return  # an executor without a connection starts no mutating step, and gets the request when it reconnects
        if handle.process.is_guess:
            log.warning(
                "process %d is not ended, because it may not belong to an attempt: the record is damaged",
                handle.process.pid,
            )
            return
        if handle.pidfd is not None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle.pidfd, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._kill_seconds if mode == "kill" else None):
                await _executor_ended(handle.process)  # a living executor ends its engine
                for seconds in INTERRUPT_SECONDS:
                    if await members.are_gone(handle.process):
                        return
                    members.send(handle.process, signal.SIGINT)
                    await _end_within(handle.process, seconds)
        while not await members.are_gone(handle.process):
            members.kill(handle.process)
            await _end_within(handle.process, _KILL_AGAIN_SECONDS)

    async def close(self) -> None:
        await self.zygote.close()
        if self._cgroups:
            self._cgroups.close()


class LocalPlugin:
    def open(self, config: RunnerConfig, environment: Mapping[str, str]) -> Local:
        if config.dispatcher_data:
            raise Invalid(
                f"job_dispatcher.data.{min(config.dispatcher_data)}: the dispatcher `local` has no such setting"
            )
        return Local(config.executor_entry, environment, config.engine_paths, cgroup=config.cgroup)


PLUGIN = LocalPlugin()


def _remove_cgroup(path: str) -> None:
    if path:
        cgroups.remove(Path(path))


def _open(process: ProcessRecord) -> int | None:
    if process.boot_id != process_record.boot_id():
        return None
    return members.open_running(ProcessIdentity(process.pid, process.start_time))


async def _executor_ended(process: ProcessRecord) -> None:
    if process.boot_id == process_record.boot_id():
        await members.exited(ProcessIdentity(process.pid, process.start_time))


async def _end_within(process: ProcessRecord, seconds: float) -> bool:
    """Return whether every process of the attempt ends within this time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await members.ended(process)
            return True
    return False


async def _exit_code(handle: Handle) -> int | None:
    if handle.exit_code is not None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_CODE_SECONDS):
                return await handle.exit_code
    return None
