"""The whole installation: servers, one database, the network and twenty hosts, and the restart of what has ended."""

import asyncio
import contextlib
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from terracrew.client.http import Api
from terracrew.server.db import open_database
from terracrew.server.identity.people import service
from terracrew.server.identity.people import store as people
from terracrew.server.identity.people.sessions import person
from terracrew.server.maintenance.local_token import first_start
from terracrew.toolchains import cache, discovery, install
from tests.chaos import engine, hosts
from tests.chaos.clock import Clock
from tests.chaos.database import Postgres
from tests.chaos.proxy import Network
from tests.chaos.set_back import SetBack
from tests.chaos.timeline import Timeline
from tests.e2e.system import eventually, free_port

_RESTART_SECONDS = 2.0
PEOPLE = 0
"""The link that nobody attacks: people and the checks use it."""


class Plan(msgspec.Struct, frozen=True):
    """The size of the installation, the length of the run, and the faults."""

    database: str = "postgres"
    servers: int = 3
    runners: int = 20
    small_disks: int = 3
    modules: int = 30
    real_modules: int = 4
    busy: int = 24
    """How many jobs are kept unfinished."""
    storm_seconds: float = 600
    settle_seconds: float = 600
    lease_seconds: float = 60
    slowest: float = 100
    """Seconds of the longest apply."""
    longest: float = 90
    """Seconds of the longest pause; the others are shorter or longer in proportion."""
    every: float = 2.0
    """Mean time between two faults."""
    seed: int = 1
    faults: tuple[str, ...] = ()
    """Only these; empty: all."""


class Process:
    """One of our long-lived processes, that may be started again under the same name."""

    def __init__(self, name: str, arguments: list[str], log: Path, env: dict[str, str]) -> None:
        self.name, self.log = name, log
        self._arguments, self._env = arguments, env
        self._process: subprocess.Popen[bytes] | None = None
        self.is_wanted = False
        """Whether it should run: if it does not, it ended by itself."""
        self.ended_at: float | None = None
        self.started_at = 0.0

    def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "terracrew.cli", *self._arguments],
                stdout=out,
                stderr=out,
                stdin=subprocess.DEVNULL,
                env=self._env,
                start_new_session=True,
            )
        self.is_wanted, self.ended_at, self.started_at = True, None, time.monotonic()

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    @property
    def code(self) -> int | None:
        """None while it runs."""
        return self._process.poll() if self._process else 0

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return lines[-1][:300] if lines else ""

    def signal(self, number: signal.Signals) -> None:
        if self._process and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        self.is_wanted = False
        self.signal(signal.SIGKILL)
        if self._process:
            self._process.wait(20)


class Installation:
    def __init__(self, plan: Plan, directory: Path, network: Network, ports: list[int], timeline: Timeline) -> None:
        self.plan, self.directory, self.network, self.timeline = plan, directory, network, timeline
        self.run = secrets.token_hex(4)
        self.witnesses = directory / "witness"
        self.postgres = Postgres() if plan.database == "postgres" else None
        self._ports = ports
        self._env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("TERRACREW_", "TF_"))},
            "HOME": str(directory),
            "TERRACREW_EXECUTOR__ISOLATION": "none",  # modules run programs of the storm, which lie outside of the system
            "TERRACREW_EXECUTOR__USER": "none",  # the witnesses of the storm belong to its user
            "TERRACREW_CACHE": str(cache.root()),
        }
        self.servers: dict[str, Process] = {}
        self.runners: dict[str, Process] = {}
        self.links: dict[str, int] = {}
        self.small_disks: set[str] = set()
        self.full_disks: set[str] = set()
        self.emptied_at: dict[str, float] = {}
        """When a host's disk was last full."""
        self.wiped: set[str] = set()
        """Attempts whose directory went with their host."""
        self.set_backs: list[SetBack] = []
        self._token = ""
        self.clocks: dict[str, Clock] = {}

    # ---- people

    def api(self, timeout: float = 30) -> Api:
        return Api(self.network.url(PEOPLE), self._token, timeout=timeout)

    # ---- from nothing to a whole site

    def build(self) -> None:
        self.witnesses.mkdir()
        self._install_engine()
        if self.postgres:
            self.clocks["postgres"] = clock = Clock(self.postgres.clock_file)
            self.postgres.environment = clock.of_postgres
            self.postgres.start()
            self.postgres.wait()
        for number, port in enumerate(self._ports, 1):
            self._make_server(f"server-{number}", port)
        self._token = asyncio.run(_first_token(self._database(self.directory / "server-1")))
        for server in self.servers.values():
            server.start()
        eventually(lambda: self.api().is_ready(), what="a server's readiness")
        for number in range(1, self.plan.runners + 1):
            self._make_runner(f"host-{number}", number)
        for runner in self.runners.values():
            runner.start()
        eventually(lambda: self._online() == self.plan.runners, within=120, what="the crew")

    def _database(self, data: Path) -> str:
        return self.postgres.url if self.postgres else f"sqlite:///{data / 'terracrew.db'}"

    @contextlib.contextmanager
    def connection(self) -> Generator[Any]:
        """Connect to the database itself, to read what the servers do not show."""
        file = self.directory / "server-1" / "terracrew.db"
        with contextlib.closing(psycopg.connect(self.postgres.url) if self.postgres else sqlite3.connect(file)) as made:
            yield made

    def _make_server(self, name: str, port: int) -> None:
        data = self.directory / name
        data.mkdir()
        arguments = ["server", "--data-dir", str(data), "--port", str(port), "--public-url", self.network.url(PEOPLE)]
        if self.postgres:
            key = self.directory / "master.key"
            key.write_text("00" * 32)
            objects = self.directory / "objects"
            objects.mkdir(exist_ok=True)
            arguments += [
                "--database-url",
                self.postgres.url,
                "--master-key-file",
                str(key),
                "--object-store",
                objects.as_uri(),
            ]
        arguments += ["--apply-lease-seconds", str(self.plan.lease_seconds)]
        self.servers[name] = Process(name, arguments, self.directory / f"{name}.log", self._env | self._clock_of(name))

    def _make_runner(self, name: str, link: int) -> None:
        made = self.api().post("/runners/register", {"name": name, "group": "", "max_jobs": 4})
        folder = self.folder(name)
        folder.mkdir()
        if link <= self.plan.small_disks and _mount(folder):
            self.small_disks.add(name)
        env = (
            self._env
            | dict(made["environment"])
            | {
                "TERRACREW_SERVER__URL": self.network.url(link),
                "TERRACREW_RUNNER__CAPACITY": "3",
                "TERRACREW_JOB_LOG_STREAM__PERIOD_SECONDS": "1",
                "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS": str(self.directory / "bin"),
                hosts.MARK: f"{self.run}/{name}",
                "CHAOS_TOFU": self._tofu,
            }
            | self._clock_of(name)
        )
        arguments = ["runner", "start", "--instance", name, "--working-directory", str(folder)]
        self.runners[name] = Process(name, arguments, self.directory / f"{name}.log", env)
        self.links[name] = link

    def _clock_of(self, name: str) -> dict[str, str]:
        """The environment of a process that has a clock of its own."""
        self.clocks[name] = Clock(self.directory / f"clock-{name}")
        return self.clocks[name].of_python

    def folder(self, host: str) -> Path:
        return self.directory / f"disk-{host}"

    def _install_engine(self) -> None:
        found = discovery.find("tofu") or install.install("tofu", report=lambda _: None)
        self._tofu = found.path
        install_programs(self.directory / "bin")

    def _online(self) -> int:
        return sum(runner["status"] == "ONLINE" for runner in self.api().list("/runners"))

    def terracrew(self, *arguments: str) -> None:
        """Run a command as the operator of the servers would, to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "terracrew.cli", *arguments],
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    # ---- while it stands

    def members(self) -> list[hosts.Member]:
        return hosts.members(self.run)

    def restart_what_ended(self) -> None:
        """Start processes that have ended again, as an init system would, and record which ended by themselves."""
        for process in (*self.servers.values(), *self.runners.values()):
            if process.is_wanted and (code := process.code) is not None:
                if process.ended_at is None:
                    process.ended_at = time.monotonic()
                    words = f"ended by itself with code {code}: {process.last_words()}"
                    self.timeline.add("note" if self._may_refuse(process, words) else "exit", words, process.name)
                elif time.monotonic() - process.ended_at > _RESTART_SECONDS:
                    process.start()

    def _may_refuse(self, process: Process, words: str) -> bool:
        """Tell whether the process may refuse to start: a runner on a full disk, or a server without its database."""
        if process.name in self.runners:
            was_full = self.emptied_at.get(process.name, 0.0) > process.started_at
            return (was_full or process.name in self.full_disks) and "No space left" in words
        return "error: PostgreSQL" in words

    def wipe(self, host: str) -> None:
        folder = self.folder(host)
        self.wiped.update(path.name for path in folder.glob("**/attempts/*") if path.is_dir())
        for entry in folder.iterdir():
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink()

    def set_disk_aside(self, host: str) -> Path:
        """Take the disk out of a host that is off: its content is not lost, but cannot be reached."""
        folder, aside = self.folder(host), Path(tempfile.mkdtemp(prefix=f"aside-{host}-", dir=self.directory))
        for entry in folder.iterdir():
            shutil.move(entry, aside / entry.name)
        self.wiped.update(path.name for path in aside.glob("**/attempts/*") if path.is_dir())
        return aside

    def put_disk_back(self, host: str, aside: Path) -> None:
        for entry in aside.iterdir():
            shutil.move(entry, self.folder(host) / entry.name)
        self.wiped -= {path.name for path in self.folder(host).glob("**/attempts/*") if path.is_dir()}

    def close(self) -> None:
        for process in (*self.servers.values(), *self.runners.values()):
            process.signal(signal.SIGCONT)
            process.kill()
        while left := self.members():
            hosts.strike(left, signal.SIGKILL)
        if self.postgres:
            self.postgres.remove()
        for name in self.small_disks:
            subprocess.run(["umount", "-l", str(self.folder(name))], check=False)


def install_programs(folder: Path) -> None:
    """Make a folder with the simulated engine, and with the program that resources of the real one run."""
    folder.mkdir()
    program = folder / "tofu"
    program.write_text(f"#!{sys.executable} -IS\n" + Path(engine.__file__).read_text())
    program.chmod(0o755)
    program.with_name("provision").symlink_to(program)


@contextlib.contextmanager
def built(plan: Plan, directory: Path, timeline: Timeline) -> Generator[Installation]:
    ports = [free_port() for _ in range(plan.servers)]
    with Network.running(plan.runners + 1, ports) as network:
        site = Installation(plan, directory, network, ports, timeline)
        try:
            site.build()
            yield site
        finally:
            site.close()


def reason_code(job: dict[str, Any]) -> str:
    """Return the code of the reason why a job waits, or an empty text if it has none."""
    return job["reason"]["code"] if job["reason"] else ""


def _mount(folder: Path) -> bool:
    """Mount a disk that can be filled without harm to others, if mounting is permitted."""
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48m", "chaos", str(folder)], check=False, capture_output=True
    )
    return done.returncode == 0


async def _first_token(url: str) -> str:
    db = await open_database(url)
    try:
        await first_start(db)
        admin = await db.read(lambda tx: people.user(tx, service.ADMINISTRATOR))
        _, token = await service.create_token(db, person(admin, None), "chaos", None)
        return token.text
    finally:
        await db.close()
