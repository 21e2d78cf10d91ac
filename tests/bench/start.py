"""`start_s`: from the command `terracrew server` on an empty data directory to an answer of /readyz."""

import socket
import subprocess
import sys
import time

from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.e2e.system import free_port

TIMES = 5
_ASK = b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"


def run(env: Env) -> dict[str, float]:
    seconds = [_start(env) for _ in range(TIMES)]
    env.say("start_s: " + ", ".join(f"{each:.2f}" for each in seconds))
    return {"start_s": median(seconds)}


def _start(env: Env) -> float:
    port, folder = free_port(), env.folder("start")
    began = time.perf_counter()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "terracrew.cli", "server", "--data-dir", str(folder / "data"), "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"HOME": str(folder), "PATH": "/usr/bin:/bin"},
        )
    try:
        while not _is_ready(port):
            if server.poll() is not None or time.perf_counter() - began > 60:
                raise RuntimeError((folder / "log").read_text()[-2000:])
            time.sleep(0.005)
        return time.perf_counter() - began
    finally:
        server.terminate()
        server.wait(20)


def _is_ready(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
            connection.sendall(_ASK)
            return connection.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
