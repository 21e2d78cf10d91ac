"""A daemon that several runs of the tests use at the same time. The first one starts it, and the last one ends it."""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import IO

from tests.machine import cgroup

START_SECONDS = 120.0
STOP_SECONDS = 60.0


class SharedDaemon:
    """Its users hold a shared lock, which the kernel releases when a user is killed: the next one to leave ends the daemon."""

    def __init__(self, folder: Path, command: list[str], answers: Callable[[], bool]) -> None:
        self.folder, self._command, self._answers = folder, command, answers
        self._users: IO[bytes] | None = None

    def join(self, when_started: Callable[[], None] = lambda: None) -> None:
        """Return when the daemon answers. `when_started` is called while nobody else uses it, if it was started now."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._users = (self.folder / "users").open("ab")
            fcntl.flock(self._users, fcntl.LOCK_SH)
            if not self._answers():
                self._start()
                when_started()

    def leave(self) -> None:
        assert self._users is not None
        with self._alone(), self._users:
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self._stop()

    def restart(self, in_between: Callable[[], None]) -> None:
        with self._alone():
            self._stop()
            in_between()
            self._start()

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """While this lock is held, no other user joins or leaves."""
        with (self.folder / "lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _start(self) -> None:
        self._stop()  # one that runs and does not answer
        log = self.folder / "log"
        with log.open("wb") as output, cgroup.outside():
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        (self.folder / "pid").write_text(f"{process.pid}")
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self._command[0]} did not start: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.05)  # there is no event to wait for before it listens

    def _stop(self) -> None:
        pid = self._pid()
        deadline = time.monotonic() + STOP_SECONDS
        number = signal.SIGTERM
        while pid is not None and self._pid() == pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
            if time.monotonic() > deadline:
                number = signal.SIGKILL
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
            time.sleep(0.1)

    def _pid(self) -> int | None:
        """Return the id of the daemon, if it runs. Another process that has its id by now is not the daemon."""
        try:
            pid = int((self.folder / "pid").read_text())
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return pid if os.fsencode(self.folder) in command else None
