"""A whole Terracrew of real processes on this machine, that tests may kill, stop and start again."""

import contextlib
import io
import itertools
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import urllib3

from terracrew.client.address import segment
from terracrew.client.http import Api
from terracrew.errors import TerracrewError
from terracrew.source_rules import archive
from terracrew.toolchains import cache
from tests.machine.forks import process as forks
from tests.machine.sqlite_template import copy_template

T = TypeVar("T")
# Of a runner, and of the one in a server.
_PID_FILES = ("*/attempts/*/pid", "*/*/attempts/*/pid")
ACTIVE = ("QUEUED", "CLAIMED", "PROCESSING", "AWAITING_APPROVAL")


def eventually(probe: Callable[[], T | None], *, within: float = 60, what: str = "it") -> T:
    """The first truthy answer of a probe; a failure that names what did not happen."""
    end = time.monotonic() + within
    while True:
        with contextlib.suppress(TerracrewError):
            if found := probe():
                return found
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {within} s")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """One of our processes; its output is kept in a file for debugging."""

    def __init__(
        self,
        name: str,
        arguments: list[str],
        log: Path,
        env: dict[str, str],
        module: str = "terracrew.cli",
        *,
        is_real: bool = True,
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as out:
            self._process = forks.start(
                arguments, env, stdout=out.fileno(), stderr=out.fileno(), module=module, is_real=is_real
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def wait(self, within: float | None = None) -> int:
        """The exit code of a process that ends by itself."""
        return self._process.wait(within)

    def kill(self, number: int = signal.SIGKILL) -> None:
        self._process.send_signal(number)
        if number in (signal.SIGKILL, signal.SIGTERM):
            self._process.wait(60)

    def stop(self) -> int:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(45)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._process.wait()


class System:
    starts_real_commands = False
    """Whether each process is started as a command, which takes a second longer than a fork of one that has started.
    Its memory, environment and command line, as the kernel shows them, are then those of a command."""
    has_migrated_database = True
    """Whether a server on SQLite starts with a copy of a migrated file, which is quicker than migrating its own."""

    def __init__(self, directory: Path, database_url: str = "") -> None:
        self.directory = directory
        self.data = directory / "server"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = database_url if database_url.startswith("postgres") else ""
        self.processes: list[Process] = []
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TERRACREW_", "TF_"))},
            "HOME": str(directory),
            # Modules of these tests leave witnesses beside the system; `test_isolation.py` takes this away.
            "TERRACREW_EXECUTOR__WRITE_PATHS": str(directory),
            "TERRACREW_SERVER_RUNNER_WRITE_PATHS": str(directory),
            # Those witnesses belong to the user of the test; `test_engine_users.py` takes this away.
            "TERRACREW_EXECUTOR__USER": "none",
            "TERRACREW_SERVER_RUNNER_USER": "none",
            "TERRACREW_CACHE": str(cache.root()),
        }

    # ---- processes

    def start_server(self, *, runner: bool, is_up: bool = False, module: str = "terracrew.cli") -> Process:
        """`is_up` starts it with `terracrew up`, which has a runner."""
        if self.has_migrated_database and not self.database and not self.data.exists():
            self.data.mkdir(mode=0o700)
            copy_template(self.data / "terracrew.db")
        arguments = ["up" if is_up else "server", "--data-dir", str(self.data), "--port", str(self.port)]
        if self.database:
            key = self.directory / "master.key"
            key.write_text("00" * 32)
            arguments += ["--database-url", self.database, "--master-key-file", str(key)]
        if runner and not is_up:
            arguments.append("--with-runner")
        server = self.start("server", arguments, self.env, module)
        eventually(lambda: self._is_ready(server), what="the server's readiness")
        return server

    def start_runner(
        self, credentials: dict[str, str], instance: str = "one", *, at: str = "", has_options: bool = True
    ) -> Process:
        """`at` is the instance whose working directory it takes over, where that is not its own. Without options, only variables
        say what it is."""
        env = self.env | credentials | {"TERRACREW_SERVER__URL": self.url}
        options = ["--instance", instance, "--working-directory", str(self.runner_directory(at or instance))]
        return self.start(f"runner-{instance}", ["runner", "start", *(options if has_options else [])], env)

    def runner_directory(self, instance: str = "one") -> Path:
        return self.directory / f"runner-{instance}"

    def start(self, name: str, arguments: list[str], env: dict[str, str], module: str = "terracrew.cli") -> Process:
        log, is_real = self.directory / f"{name}.log", self.starts_real_commands
        process = Process(name, arguments, log, env, module, is_real=is_real)
        self.processes.append(process)
        return process

    def _is_ready(self, server: Process) -> bool:
        if server.poll() is not None:
            raise RuntimeError(server.log.read_text()[-3000:])
        with contextlib.suppress(OSError):
            import urllib.request

            with urllib.request.urlopen(f"{self.url}/readyz", timeout=2) as answer:
                return answer.status == 200
        return False

    def close(self) -> None:
        for process in reversed(self.processes):
            process.stop()
        for pid in self.executors().values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(os.getsid(pid), signal.SIGKILL)

    # ---- what a person does

    @property
    def api(self) -> Api:
        return Api(self.url, (self.data / "admin.token").read_text().strip())

    def register_runner(self, name: str = "crew", **fields: Any) -> dict[str, str]:
        made = self.api.post("/runners/register", {"name": name, "group": "", **fields})
        return dict(made["environment"])

    def module(self, path: str, main: str, file: str = "main.tf", **fields: Any) -> None:
        folder = self.directory / "source" / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(main)
        uploaded = self.api.upload("/archives", archive.pack(folder), "application/gzip")
        group = path.rpartition("/")[0]
        if group:
            with contextlib.suppress(TerracrewError):
                self.api.post("/groups?parents=true", {"path": group})
        source = {"kind": "archive", "archive_id": uploaded["id"]}
        self.api.post("/modules", {"path": path, "engine": "tofu", "source": source, **fields})

    def run(self, module: str, kind: str = "PLAN", **fields: Any) -> str:
        return self.api.post(f"/modules/{segment(module)}/jobs", {"type": kind, **fields})["id"]

    def job(self, job_id: str) -> dict[str, Any]:
        return self.api.get(f"/jobs/{job_id}")

    def status(self, job_id: str) -> str:
        return self.job(job_id)["status"]

    def wait(self, job_id: str, within: float = 60) -> dict[str, Any]:
        def ended() -> dict[str, Any] | None:
            found = self.job(job_id)
            return None if found["status"] in ACTIVE else found

        return eventually(ended, within=within, what=f"the end of {job_id}")

    def wait_for_step(self, job_id: str, step: str, within: float = 60) -> None:
        eventually(
            lambda: any(s["name"] == step and s["status"] == "RUNNING" for s in self.job(job_id)["steps"]),
            within=within,
            what=f"step {step}",
        )

    def log(self, job_id: str, attempt: int | None = None) -> str:
        out = io.BytesIO()
        self.api.download(f"/jobs/{job_id}/log", out, **({"attempt": attempt} if attempt else {}))
        return out.getvalue().decode()

    def events(self, job_id: str, attempt: int) -> list[dict[str, Any]]:
        """The events of one attempt's log."""
        out = io.BytesIO()
        self.api.download(f"/jobs/{job_id}/log", out, attempt=attempt, format="events")
        return [json.loads(line) for line in out.getvalue().splitlines()]

    def state(self, module: str) -> Any:
        return self.api.get(f"/modules/{segment(module)}/state")

    def requests(self) -> int:
        """How many requests with GET the server has answered."""
        token = (self.data / "metrics.token").read_text().strip()
        answer = urllib3.request("GET", f"{self.url}/metrics", headers={"Authorization": f"Bearer {token}"})
        found = [line for line in answer.data.decode().splitlines() if line.startswith("terracrew_requests_total{")]
        return sum(int(float(line.rpartition(" ")[2])) for line in found if 'method="GET"' in line)

    # ---- what an attacker sees

    def executors(self) -> dict[str, int]:
        """Executor process by attempt directory."""
        found: dict[str, int] = {}
        # A pattern with `**` would walk through workspaces that are being removed, and fail.
        for file in itertools.chain.from_iterable(map(self.directory.glob, _PID_FILES)):
            with contextlib.suppress(OSError, ValueError, KeyError):
                pid = json.loads(file.read_text())["process"]["pid"]
                os.kill(pid, 0)
                found[file.parent.name] = pid
        return found

    def executor(self, job_id: str, attempt: int = 1) -> int:
        return eventually(lambda: self.executors().get(f"{job_id}.{attempt}"), what="an executor")


@contextlib.contextmanager
def running(directory: Path, database_url: str = "") -> Generator[System]:
    system = System(directory, database_url)
    try:
        yield system
    finally:
        system.close()


def lines_of(system: System, job_id: str, marker: str) -> Iterator[str]:
    """The lines of a job's log that hold the marker, without what a terminal would colour."""
    import re

    for line in system.log(job_id).splitlines():
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
        if marker in plain:
            yield plain
