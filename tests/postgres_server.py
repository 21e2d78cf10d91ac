"""A real PostgreSQL server for tests: made in seconds, on loopback, in memory where there is some."""

import asyncio
import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from terracrew.server.db import open_database

_INITDB = ["-E", "UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"]
_FAST = ["-c", "fsync=off", "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "max_connections=200"]


def missing() -> str | None:
    """Why there can be no server here."""
    return None if _programs() else "PostgreSQL's server programs are not installed (apt install postgresql)"


class PostgresServer:
    """Gives out databases copied from one that was migrated once, which takes tens of milliseconds each."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._template: str | None = None

    @classmethod
    @contextmanager
    def running(cls) -> Generator["PostgresServer"]:
        programs = _programs()
        assert programs is not None
        # PostgreSQL refuses to run as root.
        user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
        folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        try:
            if user:
                shutil.chown(folder, "postgres", "postgres")
            subprocess.run(
                [f"{programs}/initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust", *_INITDB],
                check=True, cwd=folder, stdout=subprocess.DEVNULL, **user,
            )  # fmt: skip
            port = _free_port()
            argv = [
                f"{programs}/postgres",
                "-D",
                f"{folder}/data",
                "-h",
                "127.0.0.1",
                "-p",
                f"{port}",
                "-k",
                f"{folder}",
            ]
            with open(folder / "log", "wb") as log:
                server = subprocess.Popen(
                    argv + _FAST,
                    cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **user,
                )  # fmt: skip
            try:
                url = f"postgresql://postgres@127.0.0.1:{port}"
                _wait_until_it_answers(url, server, folder / "log")
                yield cls(url)
            finally:
                server.send_signal(signal.SIGINT)  # a fast shutdown; SIGTERM would wait for open connections
                server.wait(20)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

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
        with psycopg.connect(f"{self.url}/postgres", autocommit=True) as connection:
            connection.execute(sql.encode())

    def _create(self, template: str) -> str:
        name = f"t_{uuid.uuid4().hex[:12]}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def _migrated_template(self) -> str:
        if self._template is None:
            self._template = self._create("template1")
            _in_a_loop_of_its_own(_migrate(f"{self.url}/{self._template}"))
        return self._template


async def _migrate(url: str) -> None:
    await (await open_database(url)).close()


def _in_a_loop_of_its_own(work: Any) -> None:
    """Fixtures may be set up while the test's event loop is already there."""
    thread = threading.Thread(target=asyncio.run, args=[work])
    thread.start()
    thread.join()


def _programs() -> Path | None:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    program = found[-1] if found else shutil.which("initdb")
    return Path(program).parent if program else None


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _wait_until_it_answers(url: str, server: "subprocess.Popen[Any]", log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            psycopg.connect(f"{url}/postgres", connect_timeout=2).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not come up: {log.read_text(errors='replace')[-2000:]}") from None
            time.sleep(0.02)  # there is no event to wait for before it listens
