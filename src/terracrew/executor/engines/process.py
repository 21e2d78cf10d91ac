"""One run of the engine, in its own process group and with its output in a file. It is stopped in steps: interrupt, interrupt, kill."""

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from terracrew.executor.control import StopMode
from terracrew.executor.engines import engine_user
from terracrew.executor.isolation.landlock import Ruleset
from terracrew.protocol.start import INTERRUPT_SECONDS
from terracrew.system import procfs

_FIRST_REAP_SECONDS, _LAST_REAP_SECONDS = 0.005, 0.25
_is_adopting = False


def adopt_orphans() -> None:
    """Become the parent of the processes that engines leave behind. From now on, every descendant of this process counts as
    part of an engine and is ended with it, regardless of its session."""
    global _is_adopting
    procfs.become_subreaper()
    _is_adopting = True


class StopDelays(msgspec.Struct, frozen=True):
    """How long an interrupted engine has before it is interrupted again, and before it is killed."""

    first: float = INTERRUPT_SECONDS[0]
    second: float = INTERRUPT_SECONDS[1]


_OOM_SCORE = 500
"""The kernel adds this to the score of engines, so that it kills them and not the executor, which saves their states."""


def _prefer_for_oom_kill(pid: int) -> None:
    file = Path(f"/proc/{pid}/oom_score_adj")
    with contextlib.suppress(OSError):  # it has ended, or this system does not allow it
        if int(file.read_text()) < _OOM_SCORE:
            file.write_text(str(_OOM_SCORE))


class EngineProcess:
    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: int,
        stdout: int | None = None,
        stop_delays: StopDelays | None = None,
        ruleset: Ruleset | None = None,
        is_ours: bool = False,
    ) -> None:
        """Start the engine, restricted to the ruleset if there is one. Standard output and standard error go to `output`, but
        standard output goes to `stdout` if that is given. With `is_ours` it runs as the user of this process."""

        user = None if is_ours else engine_user.chosen()
        if user is not None:
            engine_user.prepare()

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                arguments,
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=output if stdout is None else stdout,
                stderr=output,
                process_group=0,
                user=None if user is None else user.uid,
                group=None if user is None else user.gid,
                extra_groups=None if user is None else [],
            )

        self._process = ruleset.run(start) if ruleset else start()
        _prefer_for_oom_kill(self._process.pid)
        self._stop_delays = stop_delays or StopDelays()
        self._stopping: asyncio.Task[None] | None = None
        self._is_paused = False
        self.was_killed = False

    @property
    def pid(self) -> int:
        return self._process.pid

    async def wait(self) -> int:
        """Wait until the engine has ended, end the processes that it left behind, and return its exit code."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        descriptor = os.pidfd_open(self.pid)
        loop.add_reader(descriptor, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)
            if self._stopping:
                self._stopping.cancel()
        # The engine is not reaped yet, so its group's id cannot have been reused. No process of the group may outlive the step.
        self._signal(signal.SIGKILL)
        code = self._process.wait()
        await self._end_leftovers()
        return code

    async def _end_leftovers(self) -> None:
        """Kill and reap what the engine left behind, until the kernel says that there is no child any more."""
        pause = _FIRST_REAP_SECONDS
        while self._has_leftovers():
            self._signal_descendants(signal.SIGKILL)  # one of them may have started another one in the meantime
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LAST_REAP_SECONDS)

    def _has_leftovers(self) -> bool:
        """Reap what the engine left behind and has ended, and return whether something is left that has not."""
        which = (os.P_ALL, 0) if _is_adopting else (os.P_PGID, self.pid)
        with contextlib.suppress(ChildProcessError):
            while os.waitid(*which, os.WEXITED | os.WNOHANG):
                pass
            return True
        return False

    def pause(self) -> None:
        """Suspend all processes of the engine, unless it is being stopped."""
        if self._stopping is None and self._process.returncode is None:
            self._is_paused = True
            self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._signal(signal.SIGCONT)

    def stop(self, mode: StopMode) -> None:
        """Request the end of the engine; `wait` returns when it has ended. A second request can only change an interrupt to a kill."""
        if self._process.returncode is not None:
            return
        if mode == "kill":
            self._kill()
        elif self._stopping is None:
            self._stopping = asyncio.get_running_loop().create_task(self._descend())

    async def _descend(self) -> None:
        self.resume()  # a stopped process would not get the signal
        self._signal(signal.SIGINT)
        await asyncio.sleep(self._stop_delays.first)
        self._signal(signal.SIGINT)
        await asyncio.sleep(self._stop_delays.second)
        self._kill()

    def _kill(self) -> None:
        self.was_killed = True
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
        self._signal_descendants(number)

    def _signal_descendants(self, number: signal.Signals) -> None:
        """Signal the descendants that have left the engine's group. An interrupt goes only to those that have also left the
        session: an engine may put its plug-ins into groups of their own, because it ends them itself."""
        if not _is_adopting:
            return
        session = os.getsid(0)
        for process in procfs.descendants(os.getpid()):
            has_left = process.stat.session != session if number == signal.SIGINT else process.stat.group != self.pid
            if has_left:
                procfs.send(process, number)
