"""What `docs/scaling.md` builds on: several servers on one PostgreSQL, and very many connected runners.

`scale_jobs_per_s.N`: no-op jobs through N servers at once, each with its own runners. All processes share this machine, so the CPU
of a job is what counts: `scale_cpu_ms_per_job.{server,postgres}.N`, and `scale_kb_per_job`, by which the database grows.
`scale_log.{server_ms,postgres_ms,kb}`: what a MiB of log adds to these.
`scale_idle_cpu_percent.RUNNERS`, `scale_kb_per_runner.RUNNERS`: connected runners that send only heartbeats, over `SERVERS_OF` servers.
"""

import asyncio
import contextlib
import time
from collections.abc import Generator

import msgspec
import psutil
import psycopg

from tests.bench import cpu
from tests.bench.filled_server import Env, Filled, fill, fleet, put_load
from tests.bench.fleet import Order
from tests.bench.load import Task
from tests.bench.simulated_runners import Access
from tests.e2e.fleet import Fleet
from tests.e2e.system import Process, System

JOBS, OUTSTANDING, CREW = 3_000, 100, 10
LOG_JOBS, LOG_KB = 1_000, 256
SERVERS_OF = {10_000: 1, 100_000: 6}
"""A server keeps up to 20,000 connections unless it is told otherwise."""
SETTLE_SECONDS, IDLE_SECONDS = 30, 60
CONNECT_SECONDS = 1_200


class Several(msgspec.Struct):
    """Servers on one PostgreSQL, and what each of them is used by."""

    system: System
    url: str
    servers: list[Filled]

    def cpu_seconds(self) -> float:
        return sum(cpu.of_process(there.process.pid) for there in self.servers)


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for count in (1, 2, 3):
        with _several(env, count, CREW * count, modules=1_000) as several:
            found |= _jobs(env, several)
            if count == 1:
                found |= _log(env, several, found)
    for runners, count in SERVERS_OF.items():
        with _several(env, count, runners, modules=count) as several:
            found |= _idle(env, several, runners)
    return found


@contextlib.contextmanager
def _several(env: Env, count: int, runners: int, modules: int) -> Generator[Several]:
    with env.postgres.unmigrated_database() as url:
        system = Fleet(env.folder("scale"), url, count)
        system.balancer.start()
        try:
            token, members, paths = asyncio.run(fill(url, runners, modules))
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
    missed: int


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
        figures.missed,
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
    env.say(
        f"{', '.join(f'{name} {value:.2f}' for name, value in found.items())} "
        f"(load {cost.load_ms:.2f} ms a job; {cost.missed} claims missed)"
    )
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


def _idle(env: Env, several: Several, runners: int) -> dict[str, float]:
    before = sum(psutil.Process(there.process.pid).memory_info().rss for there in several.servers)
    with contextlib.ExitStack() as stack:
        crews = [stack.enter_context(fleet(there)) for there in several.servers]
        began = time.perf_counter()
        for crew, there in zip(crews, several.servers, strict=True):
            crew.begin(Order("gather", len(there.members)))
        for crew in crews:
            if refused := crew.report(CONNECT_SECONDS).refused:
                raise RuntimeError(f"{len(refused)} connections were refused: {refused[0]}")
        took = time.perf_counter() - began
        time.sleep(SETTLE_SECONDS)
        servers, postgres, since = several.cpu_seconds(), cpu.of_postgres(several.url), time.perf_counter()
        time.sleep(IDLE_SECONDS)
        seconds = time.perf_counter() - since
        size = sum(psutil.Process(there.process.pid).memory_info().rss for there in several.servers) - before
        online = _online(several.url)
        found = {
            f"scale_idle_cpu_percent.{runners}": 100 * (several.cpu_seconds() - servers) / seconds,
            f"scale_idle_cpu_percent.{runners}.postgres": 100 * (cpu.of_postgres(several.url) - postgres) / seconds,
            f"scale_kb_per_runner.{runners}": size / runners / 1024,
        }
    env.say(
        f"{', '.join(f'{name} {value:.1f}' for name, value in found.items())} "
        f"({len(several.servers)} servers; connected in {took:.0f} s, {runners / took:.0f} a second; {online} are online)"
    )
    if online != runners:
        raise RuntimeError(f"{online} of {runners} runners are online")
    return found


def _size(url: str) -> int:
    return _number(url, "SELECT pg_database_size(current_database())")


def _online(url: str) -> int:
    return _number(url, "SELECT count(*) FROM instances WHERE is_connected")


def _number(url: str, question: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row is not None
    return row[0]
