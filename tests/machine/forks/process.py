"""Starts commands of Terracrew as forks, and has for each what `subprocess.Popen` has for a process."""

import array
import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[3]
# What the interpreter and the C library read before any code of ours runs: a fork has the values of the process that forks.
_READ_AT_START = ("PYTHON", "LD_", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ", "OPENSSL_", "SSL_CERT")
_ENVIRONMENT = dict(os.environ)
"""Of the process that forks: as it was before any test changed it."""
_START_SECONDS = 120


class Forked:
    """A process that the fork server started. The server is its parent, and tells its exit code."""

    def __init__(
        self, arguments: Sequence[str], env: dict[str, str], stdout: int, stderr: int, module: str, cwd: Path | None
    ) -> None:
        self.args = [module, *arguments]
        self.returncode: int | None = None
        request = {"module": module, "arguments": list(arguments), "env": env, "cwd": str(cwd or Path.cwd())}
        self._answers, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(_server(), [json.dumps(request).encode()], [stdout, stderr, theirs.fileno()])
        pid = self._next_answer(_START_SECONDS)
        if pid is None:
            raise RuntimeError(f"no fork for {self.args} within {_START_SECONDS} s")
        self.pid = pid

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None:
            self.returncode = self._next_answer(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._next_answer(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _next_answer(self, timeout: float | None) -> int | None:
        """Return the next number from the server, or None if it does not come within the time."""
        waiting = select.poll()  # unlike select(), for descriptors of any number
        waiting.register(self._answers, select.POLLIN)
        if not waiting.poll(None if timeout is None else timeout * 1000):
            return None
        if not (answer := self._answers.recv(8)):
            raise RuntimeError("the process that forks has ended")
        return array.array("q", answer)[0]

    def __del__(self) -> None:
        self._answers.close()


def can_fork(env: dict[str, str]) -> bool:
    """Return whether a fork has the same environment as a new process would have."""
    names = {name for name in (*env, *_ENVIRONMENT) if name.startswith(_READ_AT_START)}
    return all(env.get(name) == _ENVIRONMENT.get(name) for name in names)


def start(
    arguments: Sequence[str],
    env: dict[str, str],
    *,
    stdout: int,
    stderr: int,
    module: str = "terracrew.cli",
    cwd: Path | None = None,
    is_real: bool = False,
) -> "Forked | subprocess.Popen[bytes]":
    """Start a command in a session of its own: as a fork where that is the same, else, or if asked, as a new process."""
    if not is_real and can_fork(env):
        return Forked(arguments, env, stdout, stderr, module, cwd)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=stdout,
        stderr=stderr,
        stdin=subprocess.DEVNULL,
        env=env,
        cwd=cwd,
        start_new_session=True,
    )


def run(arguments: Sequence[str], env: dict[str, str], timeout: float = 60) -> tuple[int, str, str]:
    """Run a command to its end. Return its exit code and what it wrote to its two outputs."""
    with contextlib.ExitStack() as files:
        out, err = (files.enter_context(os.fdopen(os.memfd_create(name), "w+b")) for name in ("out", "err"))
        process = start(arguments, env, stdout=out.fileno(), stderr=err.fileno())
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            raise
        out.seek(0)
        err.seek(0)
        return code, out.read().decode(), err.read().decode()


@cache
def _server() -> socket.socket:
    """Start the process that forks, once for each worker of pytest. It ends when the worker has ended."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.machine.forks.server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            cwd=_ROOT,
            start_new_session=True,
        )

    def end() -> None:
        ours.close()
        process.wait(10)

    atexit.register(end)
    return ours
