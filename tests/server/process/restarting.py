"""A client that forgives nothing, and servers that restart under it: what the command line of an engine does while it reads a log."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

from tests.machine.sqlite_template import copy_template

PAUSE_SECONDS = 0.02
ANSWER_SECONDS = 60.0
CAUGHT_UP_SECONDS = 0.3
START_SECONDS = 60.0
PASS_ON = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "terracrew-server.socket"}
os.execvp(sys.argv[2], sys.argv[2:])
"""
"""What a supervisor does that keeps a socket: the socket is descriptor 3, and the variables name the process that it is for."""


@dataclass
class ImpatientClient:
    """Asks 50 times a second, with a new connection each time and over one that is kept open, and tries nothing again."""

    port: int
    token: str
    answered: list[float] = field(default_factory=list[float])
    """How long each answer took, in seconds."""
    failures: list[str] = field(default_factory=list[str])
    reconnected: int = 0
    """How often an answer said that the kept connection ends with it."""
    is_kept: bool = False
    """Whether an answer has come over the kept connection."""
    waiting: set[float] = field(default_factory=set[float])
    """When the requests were begun that have no answer yet."""

    def catch_up(self) -> None:
        """Wait until no request waits that was begun during a restart."""
        end = time.monotonic() + ANSWER_SECONDS
        while min(list(self.waiting), default=end) < time.monotonic() - CAUGHT_UP_SECONDS:
            assert time.monotonic() < end, f"{len(self.waiting)} requests wait"
            time.sleep(PAUSE_SECONDS)

    @contextlib.contextmanager
    def asking(self) -> Generator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=lambda: asyncio.run(self._run(stop)))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join(ANSWER_SECONDS)

    async def _run(self, stop: threading.Event) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_asking(stop))
            while not stop.is_set():
                tasks.create_task(self._ask_once())
                await asyncio.sleep(PAUSE_SECONDS)

    async def _ask_once(self) -> None:
        began = time.monotonic()
        self.waiting.add(began)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                await self._exchange(reader, writer, "close")
                writer.close()
        except (OSError, EOFError, TimeoutError, AssertionError) as error:
            self.failures.append(f"new connection: {error!r}")
        else:
            self.answered.append(time.monotonic() - began)
        finally:
            self.waiting.discard(began)

    async def _keep_asking(self, stop: threading.Event) -> None:
        opened = None
        while not stop.is_set():
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    opened = opened or await asyncio.open_connection("127.0.0.1", self.port)
                    is_last = await self._exchange(*opened, "keep-alive")
                    self.is_kept = True
            except (OSError, EOFError, TimeoutError, AssertionError) as error:
                self.failures.append(f"kept connection: {error!r}")
                is_last = True
            if is_last and opened is not None:
                opened[1].close()
                opened = None
                self.reconnected += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, connection: str) -> bool:
        """Ask once, and return whether the server closes the connection."""
        request = f"GET /api/v1/me HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.token}\r\nConnection: {connection}\r\n\r\n"
        writer.write(request.encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = next(int(line.split(":")[1]) for line in head.splitlines() if line.startswith("content-length:"))
        body = await reader.readexactly(length)
        assert head.startswith("http/1.1 200 "), head
        assert b'"name":"admin"' in body
        return "connection: close" in head


class RestartedServer:
    """`terracrew server` with a socket of this process, or with one of its own."""

    def __init__(self, folder: Path, *, held: socket.socket | None = None) -> None:
        self.folder, self._held = folder, held
        self.before: list[str] = []
        """The program that starts the server."""
        (folder / "data").mkdir(mode=0o700)
        copy_template(folder / "data" / "terracrew.db")
        self.port = held.getsockname()[1] if held is not None else _free_port()
        self.child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        program = [*self.before, sys.executable, "-c", "from terracrew.cli.main import main; main()", "server"]
        program += ["--port", str(self.port), "--data-directory", str(self.folder / "data")]
        env = {**os.environ, "XDG_STATE_HOME": str(self.folder)}
        passed: list[int] = []
        if self._held is not None:
            passed = [self._held.fileno()]
            program = [sys.executable, "-S", "-c", PASS_ON, str(passed[0]), *program]
        self.child = subprocess.Popen(
            program, env=env, pass_fds=passed, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def wait_until_serving(self) -> None:
        assert self.child is not None
        assert self.child.stdout is not None
        lines: list[str] = []
        while not lines or "/dashboard" not in lines[-1]:
            lines.append(self.child.stdout.readline())
            assert lines[-1], "".join(lines)

    def replace(self, number: signal.Signals = signal.SIGTERM) -> float:
        """End the server and start another one. Returns for how long nobody served."""
        assert self.child is not None
        began = time.monotonic()
        self.child.send_signal(number)
        self.child.wait(START_SECONDS)
        self.child.communicate()
        self.start()
        self.wait_until_serving()
        return time.monotonic() - began

    def execute_again(self) -> float:
        assert self.child is not None
        began = time.monotonic()
        self.child.send_signal(signal.SIGUSR2)
        self.wait_until_serving()
        return time.monotonic() - began

    @property
    def token(self) -> str:
        return (self.folder / "data" / "admin.token").read_text().strip()

    def close(self) -> None:
        if self.child is not None:
            if self.child.poll() is None:
                self.child.kill()
            self.child.communicate()


@contextlib.contextmanager
def held_socket() -> Generator[socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(4096)
        yield listener


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
