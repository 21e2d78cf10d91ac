"""Starts an executor whose specification is read from standard input, for dispatchers that cannot fork one.

The process leads a session of its own, so that a runner finds the processes that outlive it.
"""

import os
import sys

import msgspec

from terracrew.attempt import process_record
from terracrew.executor import main, startup
from terracrew.protocol.start import ExecutorStart
from terracrew.system import procfs


def _run() -> int:
    if os.getsid(0) != os.getpid():
        os.setsid()  # this fails for the leader of a process group, so a job of an interactive shell must be started with setsid(1)
    start = msgspec.json.decode(sys.stdin.buffer.read(), type=ExecutorStart)
    return main.run(start, process_record.of(os.getpid()))


procfs.forbid_inspection()
sys.exit(startup.exit_code_of(_run))
