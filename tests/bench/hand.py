"""`plan_vs_hand` and `large_plan`: a plan through Terracrew beside the same plan typed at a prompt."""

import os
import subprocess
import time
from pathlib import Path

from terracrew.executor.engines import go_collector
from terracrew.toolchains import discovery
from tests.bench import by_hand
from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed, timed
from tests.e2e.system import System

PLANS, LARGE_PLANS, RESOURCES = 30, 5, 2000
_LARGE = f'resource "terraform_data" "each" {{\n  count = {RESOURCES}\n  input = "number ${{count.index}}"\n}}\n'


def run(env: Env) -> dict[str, float]:
    with crewed(env) as (system, _, _):
        return _small(env, system) | _large(env, system)


def _small(env: Env, system: System) -> dict[str, float]:
    """Compare a module that has been planned before, and one that never was. All take turns, so that they meet the same machine."""
    system.module("warm", MODULE)
    timed(system, "warm")
    warm: list[float] = []
    cold: list[float] = []
    alone: list[float] = []
    for index in range(PLANS):
        folder = by_hand.folder(system.directory, MODULE)
        began = time.perf_counter()
        by_hand.run(folder, system.env, "init", "plan")
        alone.append(time.perf_counter() - began)
        seconds, job = timed(system, "warm")
        if not any(step["kept_from"] for step in system.api.get(f"/jobs/{job['id']}")["steps"]):
            raise RuntimeError("the workspace was not warm")
        warm.append(seconds)
        system.module(f"cold{index}", MODULE)
        cold.append(timed(system, f"cold{index}")[0])
    found = {
        "plan_vs_hand": median(warm) / median(alone),
        "plan_vs_hand.cold": median(cold) / median(alone),
    }
    milliseconds = [f"{1000 * median(each):.1f}" for each in (warm, cold, alone)]
    env.say(
        f"plan_vs_hand: {found['plan_vs_hand']:.2f}, cold {found['plan_vs_hand.cold']:.2f} "
        f"(p50 in ms: warm {milliseconds[0]}, cold {milliseconds[1]}, init and plan by hand {milliseconds[2]})"
    )
    return found


def _large(env: Env, system: System) -> dict[str, float]:
    """Compare time and the engine's memory for many resources."""
    system.module("large", _LARGE)
    timed(system, "large")
    ours: list[float] = []
    alone: list[float] = []
    for _ in range(LARGE_PLANS):
        alone.append(_by_hand(system, _LARGE, "init", "plan"))
        ours.append(timed(system, "large")[0])
    memory, memory_alone = peak_mb(system.directory, _LARGE, is_ours=True), peak_mb(system.directory, _LARGE)
    found = {"large_plan": median(ours) / median(alone), "large_plan.memory": memory / memory_alone}
    env.say(
        f"large_plan: {found['large_plan']:.2f} ({median(ours):.2f} s; by hand {median(alone):.2f} s), "
        f"memory {found['large_plan.memory']:.2f} ({memory:.0f} MB; by hand {memory_alone:.0f} MB)"
    )
    return found


def _by_hand(system: System, main: str, *commands: str) -> float:
    folder = by_hand.folder(system.directory, main)
    began = time.perf_counter()
    by_hand.run(folder, system.env, *commands)
    return time.perf_counter() - began


def peak_mb(parent: Path, main: str, *, is_ours: bool = False) -> float:
    """Return the peak memory of `tofu plan`, the median of three, with the variables that Terracrew adds or without them."""
    program = discovery.require("tofu", []).path
    env = {name: value for name, value in os.environ.items() if not name.startswith(by_hand.TAKEN_AWAY)}
    folder = by_hand.folder(parent, main)
    by_hand.run(folder, env, "init")
    added = go_collector.environment(env, None) if is_ours else {}
    found: list[float] = []
    for _ in range(3):
        process = subprocess.Popen(
            [program, "plan", f"-out={folder / 'plan'}"], cwd=folder, env=env | added, stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"the plan ended with code {process.returncode}")
        found.append(usage.ru_maxrss / 1024)
    return median(found)
