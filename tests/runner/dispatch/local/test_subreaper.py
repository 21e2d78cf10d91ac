"""The parent of an executor without a cgroup ends as the executor did, so that the runner can say how that was."""

import signal
import subprocess
import sys

import pytest

_PROGRAM = """
import os, signal, socket, sys
from terracrew.runner.dispatch.local import zygote as program

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # it is ignored if the tests were started with `nohup`
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # as in a zygote whose runner was started with it blocked
if (executor := os.fork()) == 0:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.kill(os.getpid(), int(sys.argv[1]))
zygote, other = socket.socketpair()
other.close()
program.watch_over(executor, zygote)
"""


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_by_the_signal_that_ended_the_executor(number: signal.Signals) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM, str(int(number))], timeout=30, check=False)
    assert done.returncode == -number
