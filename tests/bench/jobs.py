"""`jobs_per_s`: no-op jobs through the whole lifecycle over the real protocol, and procrastinate on the same PostgreSQL."""

from terracrew.client.http import Api
from tests.bench import cpu, peer
from tests.bench.filled_server import Env, Filled, filled, put_load
from tests.bench.load import Task

JOBS = 3_000
RUNNERS = 10
OUTSTANDING = 100
SKIPPED = JOBS // 10
"""At either end: what is told is the steady state between."""


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        with filled(env, kind, RUNNERS, modules=1000) as there:
            found[f"jobs_per_s.{kind}"] = _rate(env, kind, there)
    with env.postgres.unmigrated_database() as url:
        found["jobs_per_s.procrastinate"] = peer.rate(url, JOBS)
    env.say(f"jobs_per_s.procrastinate: {found['jobs_per_s.procrastinate']:.0f}")
    return found


def _rate(env: Env, kind: str, there: Filled) -> float:
    cpu.wait_until_quiet(there.process.pid)
    before = cpu.of_process(there.process.pid)
    task = Task(
        "jobs", there.system.url, there.token, there.members, there.modules, JOBS, capacity=100, outstanding=OUTSTANDING
    )
    figures = put_load(task)
    used = cpu.of_process(there.process.pid) - before
    moments = figures.seconds[SKIPPED : JOBS - SKIPPED]
    rate = (len(moments) - 1) / (moments[-1] - moments[0])
    succeeded = sum(1 for _ in Api(there.system.url, there.token).list("/jobs", status="SUCCEEDED", limit=200))
    if succeeded != JOBS:
        raise RuntimeError(f"{succeeded} of {JOBS} jobs are SUCCEEDED")
    env.say(
        f"jobs_per_s.{kind}: {rate:.0f} (CPU a job: server {used / JOBS * 1000:.2f} ms, load {figures.cpu_seconds / JOBS * 1000:.2f} ms)"
    )
    return rate
