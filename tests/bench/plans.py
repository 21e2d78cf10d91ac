"""`plan_overhead_ms`: what a whole Terracrew adds to the engine's own time for the smallest plan, near and at a distance."""

from tests.bench.bare import PLAN, Bare
from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed, timed

PLANS = 30


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, is_distant in (("plan_overhead_ms", False), ("plan_overhead_ms.rtt50", True)):
        with crewed(env, is_distant=is_distant) as (system, _, _):
            system.module("one", MODULE)
            timed(system, "one")  # the first one fills caches
            ours: list[float] = []
            bare: list[float] = []
            for _ in range(PLANS):  # in turns, so that both meet the same machine
                engine = Bare(system.directory, MODULE, system.env)
                bare.append(1000 * sum(engine.run(*PLAN).values()))
                ours.append(1000 * timed(system, "one")[0])
        found[name] = median([mine - its for mine, its in zip(ours, bare, strict=True)])
        env.say(
            f"{name}: {found[name]:.1f} (enqueue → SUCCEEDED p50 {median(ours):.1f}, p90 {percentile(ours, 0.9):.1f}; "
            f"bare p50 {median(bare):.1f}, p90 {percentile(bare, 0.9):.1f})"
        )
    return found
