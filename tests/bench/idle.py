"""`idle_cpu_percent`, `kb_per_runner`: the CPU and memory that a server needs for connected runners that send only heartbeats."""

import time

import psutil

from tests.bench.filled_server import Env, Filled, filled, fleet
from tests.bench.fleet import Order

RUNNERS, FEW = 5_000, 100
SETTLE_SECONDS, IDLE_SECONDS = 15, 60


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        with filled(env, kind, RUNNERS, modules=1) as there:
            percent, size = _idle(env, kind, there)
            found[f"idle_cpu_percent.{kind}"], found[f"kb_per_runner.{kind}"] = percent, size
    return found


def _idle(env: Env, kind: str, there: Filled) -> tuple[float, float]:
    server = psutil.Process(there.process.pid)
    with fleet(there) as crew:
        crew.order(Order("gather", FEW))  # whatever the first ones have loaded is not theirs
        before = server.memory_info().rss
        began = time.perf_counter()
        crew.order(Order("gather", RUNNERS))
        took = time.perf_counter() - began
        time.sleep(SETTLE_SECONDS)
        percent = server.cpu_percent(IDLE_SECONDS)
        size = (server.memory_info().rss - before) / (RUNNERS - FEW) / 1024
    env.say(
        f"idle_cpu_percent.{kind}: {percent:.1f}; kb_per_runner.{kind}: {size:.1f} "
        f"({RUNNERS} runners; they came in {took:.1f} s, {(RUNNERS - FEW) / took:.0f} a second with their tokens)"
    )
    return percent, size
