"""`plan_overhead_ms`: what a whole Terracrew adds to an engine's own time for the smallest plan, near and at a distance."""

from terracrew.toolchains import discovery
from tests.bench import bare
from tests.bench.bare import PLAN, Bare
from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed, rest, timed
from tests.e2e.system import System

PLANS = 30
_PROGRAM = '{"name": "bench", "runtime": "yaml", "outputs": {"greeting": "hello world"}}'
_SMALLEST = {"tofu": MODULE, "terraform": MODULE, "pulumi": _PROGRAM}


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    with crewed(env) as (system, _, _):
        for engine in _SMALLEST:
            name = "plan_overhead_ms" if engine == "tofu" else f"plan_overhead_ms.{engine}"
            if discovery.find_versions(engine):
                found[name] = _overhead(env, system, name, engine)
            else:
                env.say(f"{name}: not measured, because {engine} is not installed (terracrew engine install {engine})")
    with crewed(env, is_distant=True) as (system, _, _):
        found["plan_overhead_ms.rtt50"] = _overhead(env, system, "plan_overhead_ms.rtt50", "tofu")
    return found


def _overhead(env: Env, system: System, name: str, engine: str) -> float:
    """Return the median of the differences. Both run the same commands, and take turns, so that they meet the same machine."""
    main = _SMALLEST[engine]
    system.module(engine, main, bare.FILE_NAMES.get(engine, "main.tf"), engine=engine)
    timed(system, engine, is_fresh=True)  # the first one fills caches
    ours: list[float] = []
    alone: list[float] = []
    for _ in range(PLANS):
        bare_run = Bare(system.directory, main, system.env, engine)
        rest()
        alone.append(1000 * sum(bare_run.run(*PLAN).values()))
        rest()
        ours.append(1000 * timed(system, engine, is_fresh=True)[0])
    overhead = median([mine - its for mine, its in zip(ours, alone, strict=True)])
    env.say(
        f"{name}: {overhead:.1f} (enqueue → SUCCEEDED p50 {median(ours):.1f}, p90 {percentile(ours, 0.9):.1f}; "
        f"bare p50 {median(alone):.1f}, p90 {percentile(alone, 0.9):.1f})"
    )
    return overhead
