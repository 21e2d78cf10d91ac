"""The signals that the first process of a container waits for. This module imports nothing that takes time."""

import contextlib
import os
import signal

WAITED_FOR = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP})


def unblock() -> None:
    """Let this process, which the first process has forked, get signals as any other process does."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def send_to_all(number: signal.Signals) -> None:
    """Send a signal to every process of the container but this one."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, number)
