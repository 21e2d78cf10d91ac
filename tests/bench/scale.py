"""What `docs/scaling.md` builds on: several servers on one PostgreSQL, and very many connected runners.

`scale_jobs_per_s.N`: no-op jobs through N servers at once, each with its own runners. All processes share this machine, so the CPU
of a job is what counts: `scale_cpu_ms_per_job.{server,postgres}.N`, and `scale_kb_per_job`, by which the database grows.
`scale_log.{server_ms,postgres_ms,kb}`: what a MiB of log adds to these.
`scale_connect_cpu_ms.RUNNERS`, `scale_idle_cpu_percent.RUNNERS`, `scale_kb_per_runner.RUNNERS`: runners that connect, and then send
only heartbeats and renew their tokens. 100,000 of them have the longest heartbeat that an operator can choose.
`scale_heartbeat_lag_s.RUNNERS`: by how much the oldest stored contact of a connected runner is older than its heartbeat allows.
Servers write every 5 s, so more than that means that they do not keep up, and that their CPU would be more if they did.
"""

import asyncio
import contextlib
import time
from collections.abc import Generator
from typing import NamedTuple

import msgspec
import psutil
import psycopg

from terracrew.api.runners import HEARTBEAT_SECONDS, Configuration
from tests.bench import cpu
from tests.bench.filled_server import Env, Filled, fill, fleet, put_load
from tests.bench.fleet import Order
from tests.bench.load import Task
from tests.bench.simulated_runners import Access
from tests.e2e.fleet import Fleet
from tests.e2e.system import Process, System

JOBS, OUTSTANDING, CREW = 3_000, 100, 10
LOG_JOBS, LOG_KB = 1_000, 256
SETTLE_SECONDS, IDLE_SECONDS = 30, 120
CONNECT_SECONDS = 1_200
LAG_SAMPLE_SECONDS = 1.0


class Idle(NamedTuple):
    """Connected runners without jobs. A server keeps up to 20,000 connections unless it is told otherwise."""

    runners: int
    servers: int
    heartbeat_seconds: float


IDLE = (Idle(10_000, 1, HEARTBEAT_SECONDS), Idle(100_000, 6, 30.0))


class Several(msgspec.Struct):
    """Servers on one PostgreSQL, and what each of them is used by."""

    system: System
    url: str
    servers: list[Filled]

    def cpu_seconds(self) -> float:
        return sum(cpu.of_process(there.process.pid) for there in self.servers)

    def rss_bytes(self) -> int:
        return sum(psutil.Process(there.process.pid).memory_info().rss for there in self.servers)


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for count in (1, 2, 3):
        with _several(env, count, CREW * count, modules=1_000) as several:
            found |= _jobs(env, several)
            if count == 1:
                found |= _log(env, several, found)
    for idle in IDLE:
        with _several(env, idle.servers, idle.runners, idle.servers, idle.heartbeat_seconds) as several:
            found |= _idle(env, several, idle)
    return found


@contextlib.contextmanager
def _several(
    env: Env, count: int, runners: int, modules: int, heartbeat_seconds: float = HEARTBEAT_SECONDS
) -> Generator[Several]:
    with env.postgres.unmigrated_database() as url:
        system = Fleet(env.folder("scale"), url, count)
        system.balancer.start()
        try:
            token, members, paths = asyncio.run(fill(url, runners, modules))
            _configure(url, heartbeat_seconds)
            processes = [system.start_one(index) for index in range(count)]
            yield Several(
                system,
                url,
                [_share(system, process, index, token, members, paths) for index, process in enumerate(processes)],
            )
        finally:
            system.close()


def _share(
    fleet_system: Fleet, process: Process, index: int, token: str, members: list[Access], paths: list[str]
) -> Filled:
    """Return one server with every nth runner and module."""
    count = len(fleet_system.ports)
    own = System(fleet_system.directory)
    own.port = fleet_system.ports[index]
    own.url = f"http://127.0.0.1:{own.port}"
    return Filled(own, process, token, members[index::count], paths[index::count])


class Cost(msgspec.Struct):
    """What some jobs took: each of these for one of them."""

    moments: list[float]
    server_ms: float
    postgres_ms: float
    load_ms: float
    kb: float


def _cost(several: Several, jobs: int, log_kb: int = 0) -> Cost:
    first, *others = several.servers
    task = Task(
        "jobs",
        first.system.url,
        first.token,
        [member for there in several.servers for member in there.members],
        [module for there in several.servers for module in there.modules],
        jobs,
        capacity=100,
        outstanding=OUTSTANDING,
        more_urls=[there.system.url for there in others],
        log_kb=log_kb,
    )
    size = _size(several.url)
    servers, postgres = several.cpu_seconds(), cpu.of_postgres(several.url)
    figures = put_load(task)
    return Cost(
        figures.seconds[jobs // 10 : -jobs // 10],
        1000 * (several.cpu_seconds() - servers) / jobs,
        1000 * (cpu.of_postgres(several.url) - postgres) / jobs,
        1000 * figures.cpu_seconds / jobs,
        (_size(several.url) - size) / jobs / 1024,
    )


def _jobs(env: Env, several: Several) -> dict[str, float]:
    count, cost = len(several.servers), _cost(several, JOBS)
    found = {
        f"scale_jobs_per_s.{count}": (len(cost.moments) - 1) / (cost.moments[-1] - cost.moments[0]),
        f"scale_cpu_ms_per_job.server.{count}": cost.server_ms,
        f"scale_cpu_ms_per_job.postgres.{count}": cost.postgres_ms,
    }
    if count == 1:
        found["scale_kb_per_job"] = cost.kb
    env.say(f"{', '.join(f'{name} {value:.2f}' for name, value in found.items())} (load {cost.load_ms:.2f} ms a job)")
    return found


def _log(env: Env, several: Several, plain: dict[str, float]) -> dict[str, float]:
    """Compare jobs that print with those that do not. The logs are still in the database, compressed as they arrived."""
    cost, per_mib = _cost(several, LOG_JOBS, LOG_KB), 1024 / LOG_KB
    found = {
        "scale_log.server_ms": (cost.server_ms - plain["scale_cpu_ms_per_job.server.1"]) * per_mib,
        "scale_log.postgres_ms": (cost.postgres_ms - plain["scale_cpu_ms_per_job.postgres.1"]) * per_mib,
        "scale_log.kb": (cost.kb - plain["scale_kb_per_job"]) * per_mib,
    }
    env.say(", ".join(f"{name} {value:.1f}" for name, value in found.items()))
    return found


def _idle(env: Env, several: Several, idle: Idle) -> dict[str, float]:
    runners = idle.runners
    for there in several.servers:
        cpu.wait_until_quiet(there.process.pid)
    before = several.rss_bytes()
    with contextlib.ExitStack() as stack:
        crews = [stack.enter_context(fleet(there)) for there in several.servers]
        coming = Interval(several)
        for crew, there in zip(crews, several.servers, strict=True):
            crew.begin(Order("gather", len(there.members)))
        for crew in crews:
            if refused := crew.report(CONNECT_SECONDS).refused:
                raise RuntimeError(f"{len(refused)} connections were refused: {refused[0]}")
        coming.end()
        time.sleep(SETTLE_SECONDS)
        staying = Interval(several)
        time.sleep(IDLE_SECONDS)
        staying.end()
        lag = _heartbeat_lag(several.url, idle.heartbeat_seconds)
        size, online = several.rss_bytes() - before, _online(several.url)
    found = {
        f"scale_connect_cpu_ms.{runners}": 1000 * coming.server / runners,
        f"scale_connect_cpu_ms.{runners}.postgres": 1000 * coming.postgres / runners,
        f"scale_idle_cpu_percent.{runners}": 100 * staying.server / staying.seconds,
        f"scale_idle_cpu_percent.{runners}.postgres": 100 * staying.postgres / staying.seconds,
        f"scale_heartbeat_lag_s.{runners}": lag,
        f"scale_kb_per_runner.{runners}": size / runners / 1024,
        "scale_mb_per_server": before / len(several.servers) / (1 << 20),
    }
    env.say(
        f"{', '.join(f'{name} {value:.2f}' for name, value in found.items())} ({len(several.servers)} servers; heartbeat "
        f"{idle.heartbeat_seconds:.0f} s; connected in {coming.seconds:.0f} s, {runners / coming.seconds:.0f} a second; {online} online)"
    )
    if online != runners:
        raise RuntimeError(f"{online} of {runners} runners are online")
    return found


class Interval:
    """The seconds, and the CPU of all servers and of PostgreSQL, from its creation to its end."""

    def __init__(self, several: Several) -> None:
        self._several = several
        self.seconds, self.server, self.postgres = self._now()

    def end(self) -> None:
        seconds, server, postgres = self._now()
        self.seconds, self.server, self.postgres = (
            seconds - self.seconds,
            server - self.server,
            postgres - self.postgres,
        )

    def _now(self) -> tuple[float, float, float]:
        return time.perf_counter(), self._several.cpu_seconds(), cpu.of_postgres(self._several.url)


def _configure(url: str, heartbeat_seconds: float) -> None:
    """Set the heartbeat of all runners, as `terracrew runner configure` does for one."""
    configuration = msgspec.json.encode(Configuration(heartbeat_seconds=heartbeat_seconds)).decode()
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE runners SET configuration = %s", (configuration,))


def _size(url: str) -> int:
    return _number(url, "SELECT pg_database_size(current_database())")


def _online(url: str) -> int:
    return _number(url, "SELECT count(*) FROM instances WHERE is_connected")


def _heartbeat_lag(url: str, heartbeat_seconds: float) -> float:
    """Watch for two heartbeats, after the CPU was measured, because reading the contacts of a whole fleet takes CPU, too."""
    question = """SELECT extract(epoch FROM clock_timestamp())::double precision - min(heard_at)
        FROM instances WHERE is_connected"""
    end, oldest = time.monotonic() + 2 * heartbeat_seconds, 0.0
    with psycopg.connect(url, autocommit=True) as connection:
        while time.monotonic() < end:
            row = connection.execute(question).fetchone()
            assert row is not None
            oldest = max(oldest, row[0])
            time.sleep(LAG_SAMPLE_SECONDS)
    return oldest - heartbeat_seconds


def _number(url: str, question: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]
