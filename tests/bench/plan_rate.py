"""`plan_rate_share`: 200 plans over 20 modules with 10 slots, as a share of the rate of init + validate + plan by hand, 10 at a time."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.bench import by_hand
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed, ended
from tests.e2e.system import System

PLANS, MODULES, SLOTS = 200, 20, 10


def run(env: Env) -> dict[str, float]:
    with crewed(env, capacity=SLOTS) as (system, _, _):
        for index in range(MODULES):
            system.module(f"m{index}", MODULE)
        _ours(system, MODULES)  # the first ones fill caches
        ours = PLANS / _ours(system, PLANS)
        bare = PLANS / _bare(system)
    env.say(f"plan_rate_share: {ours / bare:.2f} ({ours:.1f} plans/s; by hand {bare:.1f} plans/s)")
    return {"plan_rate_share": ours / bare}


def _ours(system: System, plans: int) -> float:
    began = time.perf_counter()
    jobs = [system.run(f"m{index % MODULES}") for index in range(plans)]
    for job in jobs[-MODULES:]:  # the jobs of a module run in their order, so all have ended when these have
        ended(system, job)
    seconds = time.perf_counter() - began
    statuses = {found["id"]: found["status"] for found in system.api.list("/jobs", limit=200)}
    if wrong := [job for job in jobs if statuses[job] != "SUCCEEDED"]:
        raise RuntimeError(f"{len(wrong)} of {plans} plans did not succeed: {wrong[0]} is {statuses[wrong[0]]}")
    return seconds


def _bare(system: System) -> float:
    folders = [by_hand.folder(system.directory, MODULE) for _ in range(PLANS)]
    began = time.perf_counter()
    with ThreadPoolExecutor(SLOTS) as slots:
        for done in [slots.submit(by_hand.run, each, system.env, "init", "validate", "plan") for each in folders]:
            done.result()
    return time.perf_counter() - began
