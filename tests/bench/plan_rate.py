"""`plan_rate_share`: 200 plans over 20 modules with 10 slots, as a share of the bare engine's rate, 10 at a time."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.bench.bare import PLAN, Bare
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed
from tests.e2e.system import System, eventually

PLANS, MODULES, SLOTS = 200, 20, 10


def run(env: Env) -> dict[str, float]:
    with crewed(env, capacity=SLOTS) as (system, _, _):
        for index in range(MODULES):
            system.module(f"m{index}", MODULE)
        _ours(system, MODULES)  # the first ones fill caches
        ours = PLANS / _ours(system, PLANS)
        bare = PLANS / _bare(system)
    env.say(f"plan_rate_share: {ours / bare:.2f} ({ours:.1f} plans/s; bare {bare:.1f} plans/s)")
    return {"plan_rate_share": ours / bare}


def _ours(system: System, plans: int) -> float:
    began = time.perf_counter()
    jobs = {system.run(f"m{index % MODULES}") for index in range(plans)}
    eventually(lambda: not system.api.get("/jobs", active=True, limit=1)["items"], within=180, what="the last plan")
    seconds = time.perf_counter() - began
    statuses = {found["id"]: found["status"] for found in system.api.list("/jobs", limit=200)}
    if wrong := [job for job in jobs if statuses[job] != "SUCCEEDED"]:
        raise RuntimeError(f"{len(wrong)} of {plans} plans did not succeed: {wrong[0]} is {statuses[wrong[0]]}")
    return seconds


def _bare(system: System) -> float:
    engines = [Bare(system.directory, MODULE, system.env) for _ in range(PLANS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as slots:
        list(slots.map(Bare.run, engines, *([step] * PLANS for step in PLAN)))
    return time.perf_counter() - began
