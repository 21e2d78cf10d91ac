"""`dispatch_ms`: from the request that enqueues a job to its grant, with 1, 100 and 1,000 connected runners."""

from tests.bench.figures import median, percentile
from tests.bench.load import Task
from tests.bench.stage import Env, filled, put_load

SAMPLES = 250
RUNNERS = (1, 100, 1000)


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        for runners in RUNNERS:
            with filled(env, kind, runners, modules=100) as there:
                figures = put_load(
                    Task("dispatch", there.system.url, there.token, there.members, there.modules, SAMPLES, capacity=100)
                )
            milliseconds = [1000 * value for value in figures.seconds]
            name = f"dispatch_ms.{kind}.{runners}"
            found[f"{name}.p50"], found[f"{name}.p99"] = median(milliseconds), percentile(milliseconds, 0.99)
            env.say(
                f"{name}: p50 {found[f'{name}.p50']:.2f}, p99 {found[f'{name}.p99']:.2f}, longest {max(milliseconds):.1f} "
                f"({runners} runners connected in {figures.connect_seconds:.1f} s; {figures.missed} claims missed)"
            )
    return found
