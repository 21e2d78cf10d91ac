"""The zygote of a runner process that was started for the dispatcher `local` (ADR 0065). The runner forks it before it reads its
settings, so it has no secret, and both share the memory of everything that they have imported by then."""

import gc
import importlib
import os
import select
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from terracrew import plugins, procfs
from terracrew.runner.dispatch import zygote


class EarlyZygote:
    """The process, until it was waited for, and the runner's end of its socket."""

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid, self.connection = pid, connection

    def wait(self, timeout: float) -> None:
        """Wait until it has ended. Raises TimeoutExpired, as `Popen.wait` does."""
        descriptor = os.pidfd_open(self.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(timeout * 1000):
                raise subprocess.TimeoutExpired("zygote", timeout)
        finally:
            os.close(descriptor)
        os.waitpid(self.pid, 0)


_waiting: EarlyZygote | None = None


def fork(entry: str, engine_paths: Sequence[str]) -> None:
    """Fork it, for the first dispatcher of this process that needs one, which is the default one.

    This process must not have started a thread, and must not have read anything that is secret.
    """
    global _waiting
    try:
        module = importlib.import_module(entry.partition(":")[0])
        if preload := getattr(module, "preload", None):
            preload()
        plugins.names(plugins.ENGINES)  # the runner would read the metadata of all packages after the fork otherwise
    except Exception:  # a zygote that is started later says what is wrong, and the runner hands its jobs back
        return
    gc.collect()
    gc.freeze()  # so that the collectors of both do not touch, and thereby copy, shared pages
    # Python remembers names of attributes that it has looked up, and touches each one that it forgets later.
    sys._clear_type_cache()  # pyright: ignore[reportPrivateUsage]
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if pid := os.fork():
        theirs.close()
        _waiting = EarlyZygote(pid, ours)
    else:
        _become_zygote(theirs, entry, engine_paths)


def take() -> EarlyZygote | None:
    """Return the zygote that waits for its runner. There is one at most."""
    global _waiting
    found, _waiting = _waiting, None
    return found


def _become_zygote(runner: socket.socket, entry: str, engine_paths: Sequence[str]) -> NoReturn:
    code = 1
    try:
        os.setsid()  # so that Ctrl-C in the runner's terminal does not reach it
        os.chdir("/")
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        # The runner's settings are in one of the others, and the runner may have inherited more of them.
        os.closerange(3, runner.fileno())
        os.closerange(runner.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        procfs.show_as(f"{sys.executable} -m {zygote.__name__}")
        zygote.run(runner, entry, engine_paths)
        code = 0
    finally:
        os._exit(code)
