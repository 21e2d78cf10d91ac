"""The database under attack: a PostgreSQL that can be stopped, killed and started again, or SQLite's file."""

import contextlib
import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg

from tests.e2e.system import free_port

_SETTINGS = ["-c", "max_connections=200", "-c", "log_min_messages=fatal"]
"""Durable as by default: what was committed must be there after an immediate stop."""


class Postgres:
    def __init__(self) -> None:
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
        self._programs = Path(found[-1] if found else shutil.which("initdb") or "initdb").parent
        # PostgreSQL refuses to run as root.
        self._user: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        )
        # Not inside the site's directory, which may be nobody's but ours to enter.
        self._folder = folder = Path(tempfile.mkdtemp(prefix="terracrew-chaos-pg-"))
        self.data = folder / "data"
        self.clock_file = folder / "clock"
        self.environment: dict[str, str] = {}
        """For its processes, beside what they inherit."""
        self._port = free_port()
        self._process: subprocess.Popen[Any] | None = None
        self.url = f"postgresql://postgres@127.0.0.1:{self._port}/postgres"
        if self._user:
            shutil.chown(folder, "postgres", "postgres")
        subprocess.run(
            [
                self._programs / "initdb",
                "-D",
                self.data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
            ],
            check=True,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            **self._user,
        )

    def start(self) -> None:
        if self._process is None or self._process.poll() is not None:
            self._process = self._started(self.data, self._port)

    def _started(self, data: Path, port: int) -> subprocess.Popen[Any]:
        with (self._folder / "log").open("ab") as log:
            program = [self._programs / "postgres", "-D", data, "-k", self._folder]
            return subprocess.Popen(
                [*program, "-h", "127.0.0.1", "-p", str(port), *_SETTINGS],
                cwd=self._folder,
                env=os.environ | self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._user,
            )

    def stop(self, *, is_immediate: bool) -> None:
        """Stop PostgreSQL. Fast closes connections and writes everything; immediate is like a loss of power."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT if is_immediate else signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:  # one that is still recovering may take longer to end cleanly
                self._process.send_signal(signal.SIGQUIT)
                self._process.wait(30)

    def remove(self) -> None:
        self.stop(is_immediate=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait(self) -> None:
        _wait(self.url)

    # ---- replicas

    def replicate(self) -> Path:
        """Copy what it has now, as a replica does. Returns the data directory of the copy."""
        self.wait()  # it may have been started at this moment
        copy = self._folder / f"replica-{free_port()}"
        program = [self._programs / "pg_basebackup", "-D", copy, "-c", "fast", "-X", "stream"]
        subprocess.run(
            [*program, "-h", "127.0.0.1", "-p", str(self._port), "-U", "postgres"],
            check=True,
            cwd=self._folder,
            **self._user,
        )
        return copy

    @contextlib.contextmanager
    def alone(self, data: Path) -> Generator[str]:
        """Run on a data directory at a port that nobody else knows, while this PostgreSQL does not run."""
        port = free_port()
        process = self._started(data, port)
        try:
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            _wait(url)
            yield url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)

    def replace_data(self, data: Path) -> None:
        """Forget what it had. It has what a replica has from now on."""
        shutil.rmtree(self.data)
        self.data = data


def _wait(url: str) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            return psycopg.connect(url, connect_timeout=2).close()
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
