"""`silent_offline_s`: a machine hangs while it runs a plan; the time until it counts as offline, and until its job is queued again."""

import time
from datetime import datetime

from tests.bench.filled_server import Env, filled
from tests.bench.hosts import hosts, online
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
        offline_at = time.time()
        eventually(lambda: system.job(job)["attempt"] == 2, within=LONGEST_SECONDS, what="a second attempt")
        (instance,) = system.api.get("/runners/doomed")["instances"]
        attempt = system.job(job)["attempts"][0]
        gate.open()
        system.wait(job)
    requeued_at = _at(attempt["ended_at"])
    found = {
        "silent_offline_s.offline": offline_at - _at(instance["heard_at"]),
        "silent_offline_s.requeued": requeued_at - _at(attempt["heard_at"]),
    }
    env.say(
        f"silent_offline_s: offline {found['silent_offline_s.offline']:.1f} after its last heartbeat, requeued "
        f"{found['silent_offline_s.requeued']:.1f} after the last word of either; {offline_at - stopped_at:.1f} and "
        f"{requeued_at - stopped_at:.1f} after they were stopped"
    )
    return found


def _at(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
