"""`log_lines_per_s`: an apply that prints a million lines, from the start of its step to the job's end with all of them stored.

Output of a provisioner is limited by the engine, which takes some 80 µs for each line (`.engine`, without Terracrew).
So the lines are written directly to the file of the engine's output, as fast as `cat` can write them. Isolation would refuse
to open that file again, so the runner has none.
"""

import subprocess
import time
from datetime import datetime
from pathlib import Path

from terracrew.protocol.spec import Step
from tests.bench.bare import PLAN, Bare
from tests.bench.filled_server import Env
from tests.bench.real import crewed
from tests.e2e.system import System

LINES = 1_000_000
ENGINE_LINES = 20_000
PAST_THE_ENGINE = ">> /proc/$PPID/fd/1"


def run(env: Env) -> dict[str, float]:
    lines, few = _file(env, "lines", LINES), _file(env, "few", ENGINE_LINES)
    found: dict[str, float] = {}
    for name, is_distant in (("log_lines_per_s", False), ("log_lines_per_s.rtt50", True)):
        with crewed(env, is_distant=is_distant, is_isolated=False) as (system, _, _):
            found[name] = LINES / _ours(system, _module(lines, PAST_THE_ENGINE), LINES)
            if not is_distant:
                found["log_lines_per_s.engine"] = ENGINE_LINES / _bare(system, _module(few))
                ours = ENGINE_LINES / _ours(system, _module(few), ENGINE_LINES)
                env.say(f"by a provisioner: {ours:,.0f} lines/s; bare {found['log_lines_per_s.engine']:,.0f}")
        env.say(f"{name}: {found[name]:,.0f}")
    found["log_lines_per_s.cat"] = LINES / _cat(env, lines)
    env.say(f"cat of the same: {found['log_lines_per_s.cat']:,.0f}")
    return found


def _file(env: Env, name: str, count: int) -> Path:
    path = env.directory / name
    with path.open("w") as out:
        out.writelines(f"{number:08d} the quick brown fox jumps over the lazy dog, again\n" for number in range(count))
    return path


def _module(lines: Path, where: str = "") -> str:
    return f"""
resource "terraform_data" "chatty" {{
  provisioner "local-exec" {{ command = "cat {lines} {where}" }}
}}
"""


def _ours(system: System, main: str, lines: int) -> float:
    name = f"chatty-{lines}"
    system.module(name, main)
    job = system.wait(system.run(name, "APPLY"), within=180)
    stored = job["attempts"][-1]["lines"]
    if job["status"] != "SUCCEEDED" or stored < lines:
        raise RuntimeError(f"{job['status']} with {stored} lines: {job['message']}")
    began = next(step["started_at"] for step in job["steps"] if step["name"] == "apply")
    return (datetime.fromisoformat(job["finished_at"]) - datetime.fromisoformat(began)).total_seconds()


def _bare(system: System, main: str) -> float:
    engine = Bare(system.directory, main, system.env)
    engine.run(*PLAN)
    return engine.run(Step.APPLY)[Step.APPLY]


def _cat(env: Env, lines: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["sh", "-c", 'cat "$1" > "$2"', "sh", lines, env.directory / "copy"], check=True)
    return time.perf_counter() - began
