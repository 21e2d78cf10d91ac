"""`python -m tests.bench [NAME…]`: run the benchmarks, print their figures beside their goals, write build/bench.json."""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.bench import (
    browser,
    caps,
    db_outage,
    dead_idle,
    demo,
    disk,
    dispatch,
    dispatchers,
    failover,
    federation,
    forges,
    git_fetch,
    hand,
    idle,
    jobs,
    lists,
    log_latency,
    log_rate,
    log_scale,
    masking,
    memory,
    plan_cpu,
    plan_rate,
    plans,
    reconnect,
    scale,
    silent,
    start,
    wake,
)
from tests.bench.figures import table
from tests.bench.filled_server import Env

BENCHMARKS: dict[str, Callable[[Env], dict[str, float]]] = {
    "disk": disk.run,
    "start": start.run,
    "memory": memory.run,
    "dispatch": dispatch.run,
    "dispatchers": dispatchers.run,
    "jobs": jobs.run,
    "plans": plans.run,
    "plan_cpu": plan_cpu.run,
    "hand": hand.run,
    "plan_rate": plan_rate.run,
    "git_fetch": git_fetch.run,
    "log_rate": log_rate.run,
    "masking": masking.run,
    "log_latency": log_latency.run,
    "log_ingest": log_scale.ingest,
    "log_viewers": log_scale.viewers,
    "log_search": log_scale.search,
    "idle": idle.run,
    "reconnect": reconnect.run,
    "dead_idle": dead_idle.run,
    "failover": failover.run,
    "federation": federation.run,
    "forges": forges.run,
    "silent": silent.run,
    "db_outage": db_outage.run,
    "lists": lists.run,
    "browser": browser.run,
    "caps": caps.run,
    "scale": scale.run,
    "wake": wake.run,
    "demo": demo.run,
}
FILE = Path("build/bench.json")


def main(names: list[str]) -> int:
    if unknown := set(names) - BENCHMARKS.keys():
        print(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    found: dict[str, float] = {}
    failed: list[str] = []
    with Env.open() as env:
        for name in names or BENCHMARKS:
            print(f"{name} …", file=sys.stderr, flush=True)
            began = time.perf_counter()
            try:
                found |= BENCHMARKS[name](env)
            except Exception as error:  # the others are still worth knowing
                failed.append(name)
                env.say(f"FAILED: {type(error).__name__}: {error}")
            env.say(f"({time.perf_counter() - began:.0f} s; the machine's load is {os.getloadavg()[0]:.1f})")
    print(table(found))
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(found, indent=2) + "\n")
    print(f"written to {FILE}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
