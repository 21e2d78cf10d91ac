"""The CPU seconds that a process, or a whole PostgreSQL, has used."""

import contextlib
import time

import psutil
import psycopg

from terracrew.server.dashboard import render

_QUIET_SHARE = 0.02
"""An idle server uses a tenth of this. One that compiles its templates pauses between them, and uses several times as much."""
_QUIET_SECONDS = 3
_BEFORE_TEMPLATES_SECONDS = render.COMPILE_AFTER_SECONDS + 1
"""So long after it is ready, a server has begun to compile its templates: 0.6 s of CPU, which would count as CPU of jobs."""


def of_process(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def of_postgres(url: str) -> float:
    """Return the CPU of the processes that serve the database, those that have ended included."""
    with psycopg.connect(url) as connection:
        server = psutil.Process(connection.info.backend_pid).parent()
    assert server is not None
    times = server.cpu_times()
    found = times.user + times.system + times.children_user + times.children_system
    for process in server.children():
        with contextlib.suppress(psutil.NoSuchProcess):
            found += of_process(process.pid)
    return found


def wait_until_quiet(pid: int) -> None:
    """Wait until a server that is ready does nothing any more. It compiles its templates first."""
    time.sleep(_BEFORE_TEMPLATES_SECONDS)
    quiet = 0
    while quiet < _QUIET_SECONDS:
        before = of_process(pid)
        time.sleep(1)
        quiet = quiet + 1 if of_process(pid) - before < _QUIET_SHARE else 0
