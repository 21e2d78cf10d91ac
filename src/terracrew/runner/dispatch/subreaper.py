"""The parent of an executor that is in no cgroup: every descendant whose parent ends becomes its child, so it knows
when the last one has ended, and ends then. It survives the runner and the helper process, and does nothing else."""

import contextlib
import os
import resource
import signal
import socket
from typing import NoReturn


def watch_over(executor: int, helper: socket.socket) -> NoReturn:
    """Reap until no descendant is left, then end in the way in which the executor has ended."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    helper.recv(1)  # returns when the helper has opened the executor by its id, which is free after the first wait
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
        os.kill(os.getpid(), -how)
    os._exit(how if how >= 0 else 128 - how)
