"""`plan_vs_hand` and `large_plan`: a plan through Terracrew beside the same plan typed at a prompt."""

import os
import subprocess
import time
from pathlib import Path

from terracrew.executor.engines import memory
from terracrew.toolchains import discovery
from tests.bench import by_hand
from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed, rest, timed
from tests.e2e.system import System

_STATE = "terraform.tfstate"
PLANS, LARGE_PLANS, RESOURCES = 30, 5, 2000
_LARGE = f'resource "terraform_data" "each" {{\n  count = {RESOURCES}\n  input = "number ${{count.index}}"\n}}\n'


def run(env: Env) -> dict[str, float]:
    with crewed(env) as (system, _, _):
        return _small(env, system) | _large(env, system)


def _small(env: Env, system: System) -> dict[str, float]:
    """Compare a module that has been planned before, one that never was, and one that has been applied, so that its plan finds no
    changes and needs no diff. All take turns, so that they meet the same machine."""
    system.module("warm", MODULE)
    system.module("applied", MODULE)
    timed(system, "warm")
    timed(system, "applied", "APPLY")
    state = _applied_by_hand(system)
    warm, cold, unchanged, alone, alone_unchanged = ([0.0] * PLANS for _ in range(5))
    for index in range(PLANS):
        alone[index] = _by_hand(system, MODULE, "init", "plan")
        warm[index] = _warm(system, "warm")
        system.module(f"cold{index}", MODULE)
        rest()
        cold[index] = timed(system, f"cold{index}")[0]
        alone_unchanged[index] = _by_hand(system, MODULE, "init", "plan", state=state)
        unchanged[index] = _warm(system, "applied")
    found = {
        "plan_vs_hand": median(warm) / median(alone),
        "plan_vs_hand.cold": median(cold) / median(alone),
        "plan_vs_hand.unchanged": median(unchanged) / median(alone_unchanged),
    }
    for name, ours, its in (
        ("plan_vs_hand", warm, alone),
        ("plan_vs_hand.cold", cold, alone),
        ("plan_vs_hand.unchanged", unchanged, alone_unchanged),
    ):
        env.say(f"{name}: {found[name]:.2f} (p50 {1000 * median(ours):.1f} ms; by hand {1000 * median(its):.1f} ms)")
    return found


def _warm(system: System, module: str) -> float:
    rest()
    seconds, job = timed(system, module)
    if not any(step["kept_from"] for step in system.job(job["id"])["steps"]):
        raise RuntimeError("the workspace was not warm")
    return seconds


def _applied_by_hand(system: System) -> bytes:
    """Return the state after an apply of the module."""
    folder = by_hand.folder(system.directory, MODULE)
    by_hand.run(folder, system.env, "init", "apply -auto-approve")
    return (folder / _STATE).read_bytes()


def _large(env: Env, system: System) -> dict[str, float]:
    """Compare time and the engine's memory for many resources."""
    system.module("large", _LARGE)
    timed(system, "large")
    ours: list[float] = []
    alone: list[float] = []
    for _ in range(LARGE_PLANS):
        alone.append(_by_hand(system, _LARGE, "init", "plan"))
        rest()
        ours.append(timed(system, "large")[0])
    memory, memory_alone = peak_mb(system.directory, _LARGE, is_ours=True), peak_mb(system.directory, _LARGE)
    found = {"large_plan": median(ours) / median(alone), "large_plan.memory": memory / memory_alone}
    env.say(
        f"large_plan: {found['large_plan']:.2f} ({median(ours):.2f} s; by hand {median(alone):.2f} s), "
        f"memory {found['large_plan.memory']:.2f} ({memory:.0f} MB; by hand {memory_alone:.0f} MB)"
    )
    return found


def _by_hand(system: System, main: str, *commands: str, state: bytes | None = None) -> float:
    folder = by_hand.folder(system.directory, main)
    if state is not None:
        (folder / _STATE).write_bytes(state)
    rest()
    began = time.perf_counter()
    by_hand.run(folder, system.env, *commands)
    return time.perf_counter() - began


def peak_mb(parent: Path, main: str, *, is_ours: bool = False) -> float:
    """Return the peak memory of `tofu plan`, the median of three, with the variables that Terracrew adds or without them."""
    program = discovery.require("tofu", []).path
    env = {name: value for name, value in os.environ.items() if not name.startswith(by_hand.TAKEN_AWAY)}
    folder = by_hand.folder(parent, main)
    by_hand.run(folder, env, "init")
    added = memory.collector_environment(env, None) if is_ours else {}
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
