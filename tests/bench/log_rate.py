"""`log_lines_per_s`: an apply that prints a million lines, from the start of its step to the job's end with all of them stored."""

import subprocess
import time
from datetime import datetime
from pathlib import Path

from terracrew.protocol.spec import Step
from tests.bench.bare import PLAN, Bare
from tests.bench.real import crewed
from tests.bench.stage import Env
from tests.e2e.system import System

LINES = 1_000_000


def run(env: Env) -> dict[str, float]:
    lines = env.directory / "lines"
    with lines.open("w") as out:
        out.writelines(f"{number:08d} the quick brown fox jumps over the lazy dog, again\n" for number in range(LINES))
    found: dict[str, float] = {}
    for name, is_distant in (("log_lines_per_s", False), ("log_lines_per_s.rtt50", True)):
        with crewed(env, is_distant=is_distant) as (system, _, _):
            found[name] = LINES / _ours(system, lines)
            if not is_distant:
                found["log_lines_per_s.engine"] = LINES / _bare(system, lines)
        env.say(f"{name}: {found[name]:,.0f}")
    found["log_lines_per_s.cat"] = LINES / _cat(env, lines)
    env.say(f"the engine alone, to a file: {found['log_lines_per_s.engine']:,.0f}; cat: {found['log_lines_per_s.cat']:,.0f}")
    return found


def _module(lines: Path) -> str:
    return f"""
resource "terraform_data" "chatty" {{
  provisioner "local-exec" {{ command = "cat {lines}" }}
}}
"""


def _ours(system: System, lines: Path) -> float:
    system.module("chatty", _module(lines))
    job = system.wait(system.run("chatty", "APPLY"), within=180)
    stored = job["attempts"][-1]["lines"]
    if job["status"] != "SUCCEEDED" or stored < LINES:
        raise RuntimeError(f"{job['status']} with {stored} lines: {job['message']}")
    began = next(step["started_at"] for step in job["steps"] if step["name"] == "apply")
    return (datetime.fromisoformat(job["finished_at"]) - datetime.fromisoformat(began)).total_seconds()


def _bare(system: System, lines: Path) -> float:
    engine = Bare(system.directory, _module(lines), system.env)
    engine.run(*PLAN)
    return engine.run(Step.APPLY)[Step.APPLY]


def _cat(env: Env, lines: Path) -> float:
    began = time.perf_counter()
    subprocess.run(["sh", "-c", 'cat "$1" > "$2"', "sh", lines, env.directory / "copy"], check=True)
    return time.perf_counter() - began
