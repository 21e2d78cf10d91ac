"""Starts PostgreSQL for benchmarks, on a real disk and with its default durability."""

import glob
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.e2e.system import free_port
from tests.machine.postgres_server import PostgresServer


@contextmanager
def running(folder: Path) -> Generator[PostgresServer]:
    """Run a server in a new folder."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"), key=lambda path: int(path.split("/")[4]))
    programs = Path(found[-1] if found else shutil.which("initdb") or "initdb").parent
    user: dict[str, Any] = {"user": "postgres", "group": "postgres", "extra_groups": []} if os.getuid() == 0 else {}
    folder.mkdir()
    if user:
        shutil.chown(folder, "postgres", "postgres")
    subprocess.run(
        [programs / "initdb", "-D", folder / "data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"],
        check=True,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        **user,
    )
    port = free_port()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [
                *(programs / "postgres", "-D", folder / "data", "-h", "127.0.0.1", "-p", str(port), "-k", folder),
                *("-c", "max_connections=200"),  # a server of ours takes up to 20
            ],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            **user,
        )
    url = f"postgresql://postgres@127.0.0.1:{port}"
    try:
        _wait(url)
        yield PostgresServer(url)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(20)


def _wait(url: str) -> None:
    end = time.monotonic() + 30
    while True:
        try:
            return psycopg.connect(f"{url}/postgres", connect_timeout=2).close()
        except psycopg.OperationalError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
