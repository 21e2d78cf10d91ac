"""What the first process of a container does after it has forked the executor: it waits for everything that runs.

It passes a request to end on to the executor. If the executor is dead, it interrupts what is left itself.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable

from terracrew.attempt import exit_codes

TIDY_SECONDS = 10.0


WAITED_FOR = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP})


def unblock() -> None:
    """Let this process, which the first process has forked, get signals as any other process does."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def send_to_all(number: signal.Signals) -> None:
    """Send a signal to every process of the container but this one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, number)


class ContainerReaper:
    def __init__(
        self,
        executor: int,
        interrupt_seconds: tuple[float, float],
        *,
        passes_on: bool = True,
        send_to_all: Callable[[signal.Signals], None] = send_to_all,
        tidy: Callable[[], None] | None = None,
    ) -> None:
        """`passes_on` is False for a process that only delivers, which nobody needs to interrupt. `tidy` is called every few seconds."""
        self._executor, self._interrupt_seconds = executor, interrupt_seconds
        self._passes_on, self._send_to_all = passes_on, send_to_all
        self._tidy = tidy
        self._code: int | None = None
        """The executor's exit code; a negative number is a signal."""
        self._stop_at: list[tuple[float, signal.Signals]] = []
        """When which signal goes to everything that a dead executor left, the next one last."""
        self.is_stopping = False
        """Whether somebody has requested the end of the container."""

    def reap(self) -> int:
        """Return the executor's exit code, or the negative number of the signal that ended it, after the last process has ended."""
        signal.pthread_sigmask(signal.SIG_BLOCK, WAITED_FOR)
        while self._has_children():
            now = time.monotonic()
            while self._stop_at and self._stop_at[-1][0] <= now:
                self._send_to_all(self._stop_at.pop()[1])
            wait = max(0.0, self._stop_at[-1][0] - now) if self._stop_at else None
            if self._tidy is not None:
                self._tidy()
                wait = TIDY_SECONDS if wait is None else min(wait, TIDY_SECONDS)
            got = signal.sigwait(WAITED_FOR) if wait is None else signal.sigtimedwait(WAITED_FOR, wait)
            number = got.si_signo if isinstance(got, signal.struct_siginfo) else got
            if number in (signal.SIGTERM, signal.SIGINT) and self._passes_on:
                self.is_stopping = True
                self._pass_on()
        return exit_codes.CRASHED if self._code is None else self._code

    def _has_children(self) -> bool:
        """Reap everything that has ended. Returns whether a process is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._executor:
                self._code = os.waitstatus_to_exitcode(status)
                # Its executor may have paused an engine, and no other process would resume it.
                self._send_to_all(signal.SIGCONT)
                if self.is_stopping:
                    self._pass_on()

    def _pass_on(self) -> None:
        if self._code is None:
            os.kill(self._executor, signal.SIGTERM)
        elif not self._stop_at:
            now, (first, second) = time.monotonic(), self._interrupt_seconds
            later = [(now + first + second, signal.SIGKILL), (now + first, signal.SIGINT), (now, signal.SIGINT)]
            self._stop_at = later
