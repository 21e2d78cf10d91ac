"""`dispatch_ms`: the time from enqueuing a job to its grant, by the number of connected runners and of jobs that cannot run."""

from tests.bench.figures import median, percentile
from tests.bench.filled_server import Env, filled, put_load
from tests.bench.load import Task

SAMPLES = 500
RUNNERS = (1, 10, 100, 1_000, 5_000)
QUEUED, AMONG = (10, 10_000), 100
"""How many wait, and how many runners there are meanwhile."""


def run(env: Env) -> dict[str, float]:
    found: dict[str, float] = {}
    for kind in ("sqlite", "postgres"):
        for runners in RUNNERS:
            found |= _dispatch(env, kind, f"dispatch_ms.{kind}.{runners}", runners)
        for queued in QUEUED:
            found |= _dispatch(env, kind, f"dispatch_ms.{kind}.queued{queued}", AMONG, queued)
    return found


def _dispatch(env: Env, kind: str, name: str, runners: int, queued: int = 0) -> dict[str, float]:
    with filled(env, kind, runners, modules=100, queued=queued) as there:
        figures = put_load(
            Task("dispatch", there.system.url, there.token, there.members, there.modules, SAMPLES, capacity=100)
        )
    milliseconds = [1000 * value for value in figures.seconds]
    found = {f"{name}.p50": median(milliseconds), f"{name}.p99": percentile(milliseconds, 0.99)}
    env.say(
        f"{name}: p50 {found[f'{name}.p50']:.2f}, p99 {found[f'{name}.p99']:.2f}, longest {max(milliseconds):.1f} "
        f"({runners} runners connected in {figures.connect_seconds:.1f} s)"
    )
    return found
