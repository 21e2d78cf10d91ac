"""The demo's own `terracrew up`: a child process with a separate data directory."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from terracrew.cli.connection import local
from terracrew.client.http import Api
from terracrew.errors import Conflict, TerracrewError, Unavailable
from terracrew.toolchains import cache

HOST = "127.0.0.1"
FIRST_PORT = 7400
_MAX_PORTS_TRIED = 20
_START_TIMEOUT_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 30.0


class Machine:
    """The child process. `start` starts it, `stop` stops it, and its output goes to a file in its data directory."""

    def __init__(self, port: int | None = None, directory: Path | None = None, *, fresh: bool = False) -> None:
        self.directory = (directory or cache.root() / "demo").absolute()
        if server := local.of_directory(self.directory):
            raise Conflict(
                f"the demo is already running at {server.url}",
                hint=f"stop it there with Ctrl-C, or here: kill {server.pid}",
            )
        if fresh:
            shutil.rmtree(self.directory, ignore_errors=True)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.log = self.directory / "up.log"
        self.job_log = self.directory / "jobs.log"
        self.url = f"http://{HOST}:{_free_port(port)}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it with these variables added, and return when it is ready to serve."""
        command = [sys.executable, "-m", "terracrew.cli", "up", "--data-directory", str(self.directory)]
        # Only the owner may read the file: the first start prints its login link there.
        with open(self.log, "wb", opener=_private) as log:
            self._process = subprocess.Popen(
                [*command, "--host", HOST, "--port", self.url.rpartition(":")[2]],
                # The samples need nothing of this machine's own configuration.
                env=os.environ | {"TF_CLI_CONFIG_FILE": os.devnull} | dict(environment or {}),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us; we stop it in our own order
            )
        deadline = time.monotonic() + _START_TIMEOUT_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None:
                raise Unavailable("the server ended before it was ready", hint=self._last_output())
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"the server was not ready within {_START_TIMEOUT_SECONDS:g} s", hint=self._last_output()
                )
            time.sleep(0.05)

    def _is_ready(self) -> bool:
        """Return whether our own server is ready. Another program may have taken the port; it would refuse our token."""
        try:
            return Api(self.url).is_ready() and bool(self.api().get("/me"))
        except (OSError, TerracrewError):
            return False

    def open_job_log(self) -> TextIO:
        """Create the file for the engines' output. Only its owner may read it, like the server's log."""
        return open(self.job_log, "w", encoding="utf-8", opener=_private)

    def api(self) -> Api:
        return Api(self.url, (self.directory / local.TOKEN_FILE).read_text().strip())

    def serve(self) -> None:
        """Wait until the process ends by itself, which is an error."""
        assert self._process is not None
        code = self._process.wait()
        raise Unavailable(f"the server ended by itself with code {code}", hint=self._last_output())

    def stop(self) -> None:
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _last_output(self) -> str:
        last = self.log.read_text(errors="replace").splitlines()[-15:]
        return "\n".join([f"the end of {self.log} (`terracrew demo --fresh` deletes all data first):", *last])


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def _free_port(wanted: int | None) -> int:
    for port in [wanted] if wanted else range(FIRST_PORT, FIRST_PORT + _MAX_PORTS_TRIED):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        return port
    which = f"port {wanted} is" if wanted else f"ports {FIRST_PORT} to {FIRST_PORT + _MAX_PORTS_TRIED - 1} are"
    raise Conflict(f"{which} in use", hint="name a free one with --port")
