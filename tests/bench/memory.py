"""`memory_mb`: the memory of an idle server and of an idle runner, including their helper processes."""

import time

import psutil

from tests.bench.filled_server import Env
from tests.bench.real import crewed

IDLE_SECONDS = 10


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    with crewed(env) as (_, server, runner):
        time.sleep(IDLE_SECONDS)
        for name, process in (("memory_mb.server", server), ("memory_mb.runner", runner)):
            found[name], found[f"{name}.rss"] = _memory(env, name, psutil.Process(process.pid))
    return found


def _memory(env: Env, name: str, process: psutil.Process) -> tuple[float, float]:
    """Return the proportional size (PSS) that the kernel reports, and the resident memory, counting shared pages of helpers once."""
    resident = process.memory_info().rss
    proportional = process.memory_full_info().pss
    words = [f"the process {resident / 2**20:.1f}"]
    for helper in process.children(recursive=True):
        full = helper.memory_full_info()
        resident += full.uss
        proportional += full.pss
        words.append(f"a helper {full.uss / 2**20:.1f} of its own (RSS {full.rss / 2**20:.1f})")
    env.say(f"{name}: PSS of all {proportional / 2**20:.1f} (resident {resident / 2**20:.1f}: {', '.join(words)})")
    return proportional / 2**20, resident / 2**20
