"""`dead_idle_s`: an idle runner dies, then eight jobs are enqueued; from the first request until the last of them has started elsewhere."""

import time
from datetime import datetime

from tests.bench.filled_server import Env, filled
from tests.bench.hosts import Host, hosts
from tests.bench.real import MODULE
from tests.e2e.system import System

TIMES, JOBS = 5, 8


def run(env: Env) -> dict[str, float]:
    """Return the worst of several runs. The runner is killed, which closes its connection, or stopped, which leaves it open."""
    found: dict[str, float] = {}
    with filled(env, "sqlite", runners=0, modules=0) as there:
        system = there.system
        for index in range(JOBS):
            system.module(f"m{index}", MODULE)
        hosts(system, ["living"], capacity=JOBS)
        _enqueue(system)  # the first ones fill caches
        for name, how in (("dead_idle_s", Host.kill), ("dead_idle_s.silent", Host.stop)):
            seconds: list[float] = []
            for turn in range(TIMES):
                (doomed,) = hosts(system, [f"{name}-{turn}".replace(".", "-").replace("_", "-")], capacity=JOBS)
                how(doomed)
                seconds.append(_enqueue(system))
                if how is Host.stop:
                    doomed.kill()
            found[name] = max(seconds)
            env.say(f"{name}: " + ", ".join(f"{each:.2f}" for each in seconds))
    return found


def _enqueue(system: System) -> float:
    began = time.time()
    jobs = [system.run(f"m{index}") for index in range(JOBS)]
    ended = [system.wait(job) for job in jobs]
    if wrong := [job for job in ended if job["status"] != "SUCCEEDED"]:
        raise RuntimeError(f"{len(wrong)} of {JOBS} did not succeed: {wrong[0]['message']}")
    return max(datetime.fromisoformat(job["started_at"]).timestamp() for job in ended) - began
