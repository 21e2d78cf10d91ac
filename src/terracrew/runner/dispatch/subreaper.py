"""The parent of an executor that is not in a cgroup. Every descendant whose parent ends becomes its child, so it knows when
the last one has ended, and ends then. It survives the runner and the zygote, and does nothing else."""

import contextlib
import os
import resource
import signal
import socket
from typing import NoReturn


def watch_over(executor: int, zygote: socket.socket) -> NoReturn:
    """Reap until no descendant is left, then end with the exit code or the signal of the executor."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    # This returns when the zygote has opened the executor by its id. The id may be reused after the first wait.
    zygote.recv(1)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    how = 0
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        if pid == executor:
            how = os.waitstatus_to_exitcode(status)
    if how < 0:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL has no handler
            signal.signal(-how, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # the runner may have been started with it blocked
        os.kill(os.getpid(), -how)
    os._exit(how if how >= 0 else 128 - how)
