"""`failover_s`: a machine dies with the plan that it runs; from its death until that plan runs on another one."""

import random
import time
from datetime import datetime

from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env, filled
from tests.bench.hosts import hosts
from tests.e2e import modules
from tests.e2e.gate import Gate
from tests.e2e.system import System, eventually

TIMES, AT_ONCE = 20, 5
LONGEST_SECONDS = 60


def run(env: Env) -> dict[str, float]:
    seconds: list[float] = []
    with filled(env, "sqlite", runners=0, modules=0) as there:
        crew = hosts(there.system, [f"host-0-{index}" for index in range(AT_ONCE)])
        for turn in range(1, TIMES // AT_ONCE + 1):
            with Gate.closed() as gate:
                jobs = [_start(there.system, f"plan-{turn}-{index}", gate) for index in range(AT_ONCE)]
                heirs = hosts(there.system, [f"host-{turn}-{index}" for index in range(AT_ONCE)])
                host_of = {host.name: host for host in crew}
                for job in jobs:
                    time.sleep(random.uniform(0, 1))  # at any moment between two looks of the server
                    died_at = host_of[there.system.job(job)["instance_name"]].kill()
                    seconds.append(-died_at)
                for index, job in enumerate(jobs, len(seconds) - AT_ONCE):
                    seconds[index] += _running_again(there.system, job)
                gate.open()
                for job in jobs:
                    there.system.wait(job)
                crew = heirs
    found = {"failover_s.p50": median(seconds), "failover_s.p99": percentile(seconds, 0.99)}
    env.say(f"failover_s: p50 {found['failover_s.p50']:.1f}, p99 {found['failover_s.p99']:.1f}, of {len(seconds)}")
    return found


def _start(system: System, name: str, gate: Gate) -> str:
    system.module(name, modules.gated_plan(gate.address))
    job = system.run(name)
    system.wait_for_step(job, "plan")
    return job


def _running_again(system: System, job_id: str) -> float:
    """Return when the plan of the second attempt started, by the clock of this machine."""

    def found() -> float | None:
        job = system.job(job_id)
        steps = [step for step in job["steps"] if step["name"] == "plan" and step["status"] == "RUNNING"]
        return datetime.fromisoformat(steps[0]["started_at"]).timestamp() if job["attempt"] == 2 and steps else None

    return eventually(found, within=LONGEST_SECONDS, what=f"the second attempt of {job_id}")
