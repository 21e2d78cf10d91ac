"""`silent_offline_s`: a machine hangs with the plan that it runs: from then until it counts as offline, and until the job is queued again."""

import time
from datetime import datetime

from tests.bench.hosts import hosts, online
from tests.bench.stage import Env, filled
from tests.e2e import modules
from tests.e2e.gate import Gate
from tests.e2e.system import eventually

LONGEST_SECONDS = 90


def run(env: Env) -> dict[str, float]:
    with filled(env, "sqlite", runners=0, modules=0) as there, Gate.closed() as gate:
        system = there.system
        (doomed,) = hosts(system, ["doomed"])
        system.module("plan", modules.gated_plan(gate.address))
        job = system.run("plan")
        system.wait_for_step(job, "plan")
        hosts(system, ["heir"])
        doomed.stop()
        stopped_at = time.time()
        eventually(lambda: "doomed" not in online(system), within=LONGEST_SECONDS, what="its being offline")
        offline = time.time() - stopped_at
        eventually(lambda: system.job(job)["attempt"] == 2, within=LONGEST_SECONDS, what="a second attempt")
        ended = system.job(job)["attempts"][0]["ended_at"]
        gate.open()
        system.wait(job)
    found = {
        "silent_offline_s.offline": offline,
        "silent_offline_s.requeued": datetime.fromisoformat(ended).timestamp() - stopped_at,
    }
    env.say(", ".join(f"{name}: {value:.1f}" for name, value in found.items()))
    return found
