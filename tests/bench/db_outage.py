"""`db_outage_s`: PostgreSQL is restarted under 50 running jobs. Counts failed jobs and missing lines, and the time until all jobs continue.

Runners and executors are real. The engine is the simulated one of the chaos runs, because a small machine cannot run fifty real ones.
"""

import re
import sys
import time
from pathlib import Path

import msgspec
import psycopg

from terracrew.client.address import segment
from terracrew.source_rules import archive
from tests.bench.filled_server import Env
from tests.chaos import engine
from tests.e2e.fleet import Fleet, fleet
from tests.e2e.system import eventually
from tests.machine.postgres_server import OwnServer

JOBS, RUNNERS = 50, 5
LINES, SECONDS = 600, 60
_LINE = re.compile(r"^apply-line (\d+)\r?$", re.MULTILINE)


def run(env: Env) -> dict[str, float]:
    with (
        OwnServer.making([]) as postgres,
        postgres.unmigrated_database() as url,
        fleet(env.folder("outage"), url, 1) as system,
    ):
        _crew(system)
        jobs = [_start(system, f"chatty-{index}") for index in range(JOBS)]
        eventually(lambda: len(_marks(url, jobs, least_lines=20)) == JOBS, within=120, what="all jobs in their apply")
        postgres.stop()
        stopped_at = time.perf_counter()
        postgres.start()
        back_at = time.perf_counter()
        before = _marks(url, jobs)
        going_on: dict[str, float] = {}
        while len(going_on) < JOBS and time.perf_counter() - back_at < 60:
            moved = {job for job, mark in _marks(url, jobs).items() if mark > before[job]}
            going_on |= dict.fromkeys(moved - going_on.keys(), time.perf_counter() - back_at)
            time.sleep(0.02)
        ended = [system.wait(job, within=3 * SECONDS) for job in jobs]
        failed = [job for job in ended if (job["status"], job["attempt"]) != ("SUCCEEDED", 1)]
        whole = [str(number) for number in range(1, LINES + 1)]
        missing = sum(_missing(_LINE.findall(system.log(job)), whole) for job in jobs)
    found = {
        "db_outage_s": max(going_on.values()),
        "db_outage_s.failed": len(failed),
        "db_outage_s.lost_lines": missing,
    }
    env.say(
        f"db_outage_s: {found['db_outage_s']:.2f} (away for {back_at - stopped_at:.1f} s; {len(going_on)} of {JOBS} went on, "
        f"the first after {min(going_on.values()):.2f}); {len(failed)} jobs failed, {missing} of {JOBS * LINES} lines are missing"
    )
    if len(going_on) < JOBS:
        raise RuntimeError(f"{JOBS - len(going_on)} jobs did not go on")
    return found


def _missing(found: list[str], whole: list[str]) -> int:
    """Count the missing lines; a line that occurs twice or out of order also counts."""
    return 0 if found == whole else max(1, len(set(whole) - set(found)))


def _crew(system: Fleet) -> None:
    program = system.directory / "bin" / "tofu"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -IS\n" + Path(engine.__file__).read_text())
    program.chmod(0o755)
    for index in range(RUNNERS):
        more = {
            "TERRACREW_RUNNER__CAPACITY": str(JOBS // RUNNERS),
            "TERRACREW_JOB_LOG_STREAM__PERIOD_SECONDS": "1",
            "TERRACREW_ENGINE__ADDITIONAL_BINARY_PATHS": str(program.parent),
        }
        system.start_runner(system.register_runner(f"crew-{index}") | more, instance=f"crew-{index}")
    eventually(
        lambda: len([r for r in system.api.list("/runners") if r["status"] == "ONLINE"]) == RUNNERS, what="the crew"
    )


def _start(system: Fleet, name: str) -> str:
    folder = system.directory / "source" / name
    folder.mkdir(parents=True)
    what = {"name": name, "witness": str(system.directory), "seconds": SECONDS, "lines": LINES, "states": 2}
    (folder / "chaos.json").write_bytes(msgspec.json.encode(what))
    (folder / "main.tf").write_text("")
    uploaded = system.api.upload("/archives", archive.pack(folder), "application/gzip")
    source = {"kind": "archive", "archive_id": uploaded["id"]}
    system.api.post("/modules", {"path": name, "engine": "tofu", "source": source})
    return system.api.post(f"/modules/{segment(name)}/jobs", {"type": "APPLY"})["id"]


def _marks(url: str, jobs: list[str], least_lines: int = 0) -> dict[str, int]:
    """Return the number of the last stored event of each job."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT job_id, mark FROM attempts WHERE job_id = ANY(%s) AND lines >= %s", (jobs, least_lines)
        ).fetchall()
    return {job: int(mark) for job, mark in rows}
