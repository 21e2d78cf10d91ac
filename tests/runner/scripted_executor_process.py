"""What these tests fork instead of the executor: it says that it is there and does as the test says."""

import json
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from terracrew.attempt.process_record import ProcessRecord
from terracrew.executor import startup
from terracrew.protocol.start import ExecutorStart

_helper = 0
"""The process that the executor is forked from."""


def warm(_engine_paths: Sequence[str]) -> None:
    global _helper
    _helper = os.getpid()


def run(start: ExecutorStart, process: ProcessRecord) -> int:
    return startup.run_in_directory(start, process, _act)


def _act(start: ExecutorStart, address: str = "") -> int:
    started_at = time.clock_gettime(time.CLOCK_MONOTONIC)
    told: list[str] = []
    signal.signal(signal.SIGTERM, lambda _number, _frame: told.append("SIGTERM"))
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(address or start.environment["SCRIPTED_EXECUTORS"])
    with connection, connection.makefile("rw") as line:
        _say(
            line,
            pid=os.getpid(),
            session=os.getsid(0),
            helper=_helper,
            is_salvage=start.is_salvage,
            directory=start.directory,
            server_url=start.server_url,
            workspaces=start.workspaces,
            journal=Path("attempt.json").exists(),
            files=sorted(os.listdir()),
            cwd=os.getcwd(),
            environment=start.environment,
            own_environment=dict(os.environ),
            descriptors=sorted(
                os.readlink(f"/proc/self/fd/{fd}")
                for fd in os.listdir("/proc/self/fd")
                if int(fd) > 2 and os.path.exists(f"/proc/self/fd/{fd}")
            ),
            started_at=started_at,
        )
        while True:
            match line.readline().split():
                case ["finish"]:
                    Path("done").write_text("7")
                    return 0
                case ["refused"]:
                    Path("refused").write_text("9")
                    return 3
                case ["exit", code]:
                    return int(code)
                case ["engine", fifo]:
                    _say(line, engine=subprocess.Popen(["cat", fifo], process_group=0).pid)
                case ["escape", fifo]:
                    _say(line, escaped=_escape(f"exec cat {fifo}"))
                case ["escape-deaf", fifo]:
                    _say(line, escaped=_escape(f"trap '' INT; exec cat {fifo}"))
                case ["stumble-on-full-disk"]:
                    threading.Thread(target=threading.Event().wait).start()
                    os.dup2(os.open("/dev/full", os.O_WRONLY), 2)
                    raise RuntimeError("nobody reads this")
                case ["told"]:
                    _say(line, told=told)
                case other:
                    raise RuntimeError(f"told to {other}")


def _escape(script: str) -> int:
    """Start a process in a session of its own whose parent ends at once."""
    command = ["setsid", "--fork", "/bin/sh", "-c", f"echo $$; {script} > /dev/null 2>&1"]
    return int(subprocess.check_output(command, stdin=subprocess.DEVNULL))


def _say(line: TextIO, **facts: Any) -> None:
    line.write(json.dumps(facts) + "\n")
    line.flush()


def run_behind_allow_list(start: ExecutorStart, process: ProcessRecord) -> int:
    """The same where the engine's environment holds only what the allow-list lets through."""
    return startup.run_in_directory(start, process, partial(_act, address=start.environment["STAGE_proxy"]))
