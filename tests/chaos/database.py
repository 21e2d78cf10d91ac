"""The database under attack: a PostgreSQL that can be stopped, killed and started again, or SQLite's file."""

import glob
import os
import shutil
import signal
import subprocess
import tempfile
import time
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
                folder / "data",
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
        if self._process is not None and self._process.poll() is None:
            return
        with (self._folder / "log").open("ab") as log:
            program = [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder]
            self._process = subprocess.Popen(
                [*program, "-h", "127.0.0.1", "-p", str(self._port), *_SETTINGS],
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
            self._process.wait(30)

    def remove(self) -> None:
        self.stop(is_immediate=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def wait(self) -> None:
        end = time.monotonic() + 30
        while True:
            try:
                return psycopg.connect(self.url, connect_timeout=2).close()
            except psycopg.OperationalError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
