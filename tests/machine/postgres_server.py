"""A real PostgreSQL server for tests: made in seconds, on loopback, in memory where there is some."""

import asyncio
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from terracrew.server.db import open_database

_INITDB = ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
_FAST = ["-c", "fsync=off", "-c", "full_page_writes=off", "-c", "max_connections=200"]
START_SECONDS = STOP_SECONDS = 120
"""Bounds for a machine under heavy load; alone, it takes a tenth of a second."""
_FORGETFUL = ["-c", "synchronous_commit=off"]


def missing() -> str | None:
    """Why there can be no server here."""
    return None if find_programs() else "PostgreSQL's server programs are not installed (apt install postgresql)"


class PostgresServer:
    """Gives out databases copied from one that was migrated once, which takes tens of milliseconds each."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._template: str | None = None
        self._administrator: psycopg.Connection[Any] | None = None
        """Kept, because a test takes longer to connect than to make its database."""

    @classmethod
    @contextmanager
    def running(cls) -> Generator["PostgresServer"]:
        with OwnServer.making(_FAST + _FORGETFUL) as server:
            yield server

    @contextmanager
    def database(self) -> Generator[str]:
        """The address of a database of one's own."""
        name = self._create(self._migrated_template())
        yield f"{self.url}/{name}"
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    @contextmanager
    def unmigrated_database(self) -> Generator[str]:
        name = self._create("template1")
        yield f"{self.url}/{name}"
        self.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def execute(self, sql: str) -> None:
        """As the administrator, outside of any transaction."""
        try:
            self._connected().execute(sql.encode())
        except psycopg.OperationalError:  # the server was stopped since
            self._administrator = None
            self._connected().execute(sql.encode())

    def _connected(self) -> "psycopg.Connection[Any]":
        if self._administrator is None:
            self._administrator = psycopg.connect(f"{self.url}/postgres", autocommit=True)
        return self._administrator

    def _create(self, template: str) -> str:
        """Make a copy of the template, of its files where that is not the only way: since PostgreSQL 15, the default writes every
        page to the log too, which takes twice the processor time."""
        name = f"t_{uuid.uuid4().hex[:12]}"
        strategy = "STRATEGY FILE_COPY" if self._connected().info.server_version >= 150000 else ""
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template} {strategy}")
        return name

    def _migrated_template(self) -> str:
        if self._template is None:
            self._template = self._create("template1")
            migrate(f"{self.url}/{self._template}")
        return self._template


class OwnServer(PostgresServer):
    """One that may be stopped and started."""

    def __init__(self, folder: Path, programs: Path, settings: list[str]) -> None:
        self._folder, self._programs, self._settings = folder, programs, settings
        # PostgreSQL refuses to run as root.
        self._user: dict[str, Any] = (
            {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        )
        self._port = _free_port()
        self._process: subprocess.Popen[Any] | None = None
        super().__init__(f"postgresql://postgres@127.0.0.1:{self._port}")

    @classmethod
    @contextmanager
    def making(cls, settings: list[str] = _FAST) -> Generator["OwnServer"]:
        """What it says it has committed survives the death of its processes, unless the settings say otherwise."""
        programs = find_programs()
        assert programs is not None
        folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        try:
            server = cls(folder, programs, settings)
            server._make()
            server.start()
            try:
                yield server
            finally:
                server.stop()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        """Return when it answers."""
        argv = [f"{self._programs}/postgres", "-D", f"{self._folder}/data", "-h", "127.0.0.1", "-p", f"{self._port}"]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [*argv, "-k", f"{self._folder}", *self._settings],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._user,
            )
        _wait_until_it_answers(self.url, self._process, self._folder / "log")

    def start_again(self) -> None:
        """Start it, if it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.start()

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends every session (fast), SIGQUIT all at once (immediate); SIGTERM would wait for open connections."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(number)
            self._process.wait(STOP_SECONDS)

    def signal_all(self, number: signal.Signals) -> None:
        """To every process of it: one that is stopped by SIGSTOP answers nobody and closes nothing."""
        assert self._process is not None
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        for pid in [str(self._process.pid), *children]:
            with suppress(ProcessLookupError):
                os.kill(int(pid), number)

    def _make(self) -> None:
        if self._user:
            shutil.chown(self._folder, "postgres", "postgres")
        subprocess.run(
            [f"{self._programs}/initdb", "-D", f"{self._folder}/data", "-U", "postgres", "-A", "trust", *_INITDB],
            check=True,
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            **self._user,
        )


def migrate(url: str) -> None:
    """Bring an empty database up to date, in a thread, because the event loop of a test may run already."""

    async def work() -> None:
        await (await open_database(url)).close()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work()).result()


def find_programs() -> Path | None:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    program = found[-1] if found else shutil.which("initdb")
    return Path(program).parent if program else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_it_answers(url: str, server: "subprocess.Popen[Any]", log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            psycopg.connect(f"{url}/postgres", connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not come up: {log.read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.02)  # there is no event to wait for before it listens
