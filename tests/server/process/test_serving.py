"""A real server process starts, serves on a socket and stops as its operators expect."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from pydantic import SecretStr

from terracrew.errors import Conflict
from terracrew.server.process import serve
from terracrew.settings.server import ServerSettings

STARTS = 60.0  # seconds; a machine that is busy with other tests takes its time


class Process:
    """`terracrew server` on an empty data directory. It runs `setup`, a statement of Python, before anything else."""

    def __init__(self, folder: Path, setup: str = "pass") -> None:
        self.port = free_port()
        program = [sys.executable, "-c", f"{setup}\nfrom terracrew.cli.main import main; main()", "server"]
        self.child = subprocess.Popen(
            [*program, "--port", str(self.port), "--data-directory", str(folder / "data")],
            env={**os.environ, "XDG_STATE_HOME": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.child.stdout is not None
        greeting = self.child.stdout.readline()  # it greets once it serves
        assert str(self.port) in greeting, greeting + self.child.stdout.read()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=STARTS)
        token = (folder / "data" / "admin.token").read_text()
        self.client.headers["Authorization"] = f"Bearer {token}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def process(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Process]:
    made = Process(tmp_path, getattr(request, "param", "pass"))
    try:
        yield made
    finally:
        made.client.close()
        if made.child.poll() is None:
            made.child.kill()
        made.child.communicate()


BROKEN_TEMPLATE = """
from jinja2 import DictLoader
from terracrew.server.dashboard import render
render.COMPILE_AFTER_SECONDS = 0.0
render.environment().loader = DictLoader({"broken.html": "{% broken"})
"""


@pytest.mark.parametrize("process", [BROKEN_TEMPLATE], indirect=True)
def test_a_template_that_cannot_be_compiled_does_not_end_the_server(process: Process) -> None:
    """The task that compiles templates ended the whole server by its error, for example when no more files could be opened."""
    assert process.child.stdout is not None
    while "TemplateSyntaxError" not in (line := process.child.stdout.readline()):
        assert line, "the server has ended"
    assert process.client.get("/readyz").json() == {"status": "ok"}
    process.child.send_signal(signal.SIGINT)
    assert process.child.wait(STARTS) == 0


def test_it_serves_refuses_large_bodies_and_stops_when_told(process: Process) -> None:
    answer = process.client.get("/readyz")
    assert answer.json() == {"status": "ok"}
    assert "Server" not in answer.headers
    # A path of the tree is one segment of a URL on the wire, too.
    made = process.client.post("/api/v1/groups?parents=true", json={"path": "a/b"}).json()
    assert made.items() <= process.client.get("/api/v1/groups/a%2Fb").json().items()
    body = b'{"path": "' + b"a" * 50_000_000 + b'"}'
    headers = {"Content-Type": "application/json"}
    answer = process.client.post("/api/v1/groups", content=body, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    pieces = (body[start : start + (1 << 16)] for start in range(0, len(body), 1 << 16))
    answer = process.client.post("/api/v1/groups", content=pieces, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert process.client.get("/readyz").status_code == 200
    process.child.send_signal(signal.SIGINT)
    assert process.child.wait(STARTS) == 0


def test_a_stop_ends_open_streams_first_and_waits_for_nobody(process: Process) -> None:
    with process.client.stream("GET", "/api/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("retry")
        asked = time.monotonic()
        process.child.send_signal(signal.SIGTERM)
        list(lines)  # ends by itself, and as a whole answer ends
    assert process.child.wait(STARTS) == 0
    # The stream did not have to be torn off after the time that slow answers are given.
    assert time.monotonic() - asked < serve.GRACE_SECONDS


def test_an_address_in_use_is_told_in_words() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(Conflict, match=rf"cannot listen on 127.0.0.1:{port}: address already in use. Is another"):
            serve.bind(ServerSettings(port=port))


def test_it_binds_to_loopback_unless_told_otherwise() -> None:
    with serve.bind(ServerSettings(port=0)) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"


def test_a_server_knows_its_address_and_prints_no_secret() -> None:
    settings = ServerSettings(master_key=SecretStr("secret"), database_url=SecretStr("postgresql://u:secret@db"))
    assert "secret" not in f"{settings!r} {settings}"
    assert ServerSettings(host="0.0.0.0", port=80).url == "http://localhost:80"
    assert ServerSettings(host="::1", port=80).url == "http://[::1]:80"


async def test_the_header_date_follows_the_clock_until_the_server_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    closing, date = asyncio.Event(), "never"
    serving: Any = serve

    def now(*_: object, **__: object) -> str:
        return date

    monkeypatch.setattr(serve, "DATE_SECONDS", 0.001)
    monkeypatch.setattr("uvicorn.server.formatdate", now)
    web = serving.ClosingUvicorn(uvicorn.Config("none:none"), None, closing, lambda: None)
    running = asyncio.create_task(web.main_loop())
    async with asyncio.timeout(STARTS):
        for date in ("one", "two", "three"):
            while (b"date", date.encode()) not in web.server_state.default_headers:
                await asyncio.sleep(0.001)
        monkeypatch.setattr(serve, "DATE_SECONDS", 1e6)
        await asyncio.sleep(0.1)
        closing.set()
        await running
    assert web.should_exit
