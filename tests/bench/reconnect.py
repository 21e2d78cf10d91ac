"""`reconnect_s`: a server with a fleet is killed and started again; the time until every runner is back with its jobs.

`connect_cpu_ms`: the CPU of the server, and with `.postgres` at its end that of PostgreSQL, for each runner that connects: its
token, its handshake and its hello.
"""

import time

import psutil

from terracrew.client.http import Api
from tests.bench import cpu
from tests.bench.figures import median
from tests.bench.filled_server import Env, Filled, Fleet, filled, fleet
from tests.bench.fleet import Order
from tests.e2e.system import eventually

RUNNERS = (2_000, 5_000)
JOBS = 100
"""That run meanwhile."""


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        for runners in RUNNERS:
            with filled(env, kind, runners, modules=JOBS) as there, fleet(there) as crew:
                found |= _connect(env, f"connect_cpu_ms.{kind}.{runners}", there, crew, runners)
                jobs = _start(there)
                name = f"reconnect_s.{kind}.{runners}"
                found[name] = _restart(env, name, there, crew)
                # After an outage that is longer than a token's life, each asks for a new one first.
                found[f"{name}.tokens"] = _restart(env, f"{name}.tokens", there, crew, is_without_tokens=True)
                _finish(there, crew, jobs)
    return found


def _connect(env: Env, name: str, there: Filled, crew: Fleet, runners: int) -> dict[str, float]:
    cpu.wait_until_quiet(there.process.pid)
    began, server, postgres = time.monotonic(), cpu.of_process(there.process.pid), _postgres(there)
    report = crew.order(Order("gather", runners))
    took = time.monotonic() - began
    found = {name: 1000 * (cpu.of_process(there.process.pid) - server) / runners}
    if there.database_url:
        found[f"{name}.postgres"] = 1000 * (_postgres(there) - postgres) / runners
    env.say(
        f"{', '.join(f'{each} {value:.2f}' for each, value in found.items())} "
        f"({runners / took:.0f} a second; load {1000 * report.cpu_seconds / runners:.2f} ms)"
    )
    return found


def _postgres(there: Filled) -> float:
    return cpu.of_postgres(there.database_url) if there.database_url else 0.0


def _start(there: Filled) -> list[str]:
    jobs = [there.system.run(module) for module in there.modules]
    api = there.system.api
    eventually(lambda: _count(api, "PROCESSING") == JOBS, what="the start of all jobs")
    return jobs


def _restart(env: Env, name: str, there: Filled, crew: Fleet, *, is_without_tokens: bool = False) -> float:
    crew.begin(Order("return", is_without_tokens=is_without_tokens))
    there.process.kill()
    killed_at = time.monotonic()
    process = there.system.start_server(runner=False)
    ready = time.monotonic() - killed_at
    there.process = process
    report = crew.report()
    cpu = psutil.Process(process.pid).cpu_times()
    if report.refused:
        raise RuntimeError(f"{name}: {len(report.refused)} were refused: {report.refused[0]}")
    seconds = [moment - killed_at for moment in report.moments]
    env.say(
        f"{name}: {seconds[-1]:.1f} (ready after {ready:.1f}, p50 {median(seconds):.1f}; {report.tries} tries; "
        f"CPU: server {cpu.user + cpu.system:.1f} s, load {report.cpu_seconds:.1f} s)"
    )
    return seconds[-1]


def _finish(there: Filled, crew: Fleet, jobs: list[str]) -> None:
    crew.order(Order("finish"))
    for job in map(there.system.wait, jobs):
        if (job["status"], job["attempt"]) != ("SUCCEEDED", 1):
            raise RuntimeError(f"{job['id']} is {job['status']} in attempt {job['attempt']}: {job['message']}")


def _count(api: Api, status: str) -> int:
    return sum(1 for _ in api.list("/jobs", status=status, limit=200))
