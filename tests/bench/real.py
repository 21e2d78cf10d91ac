"""Starts a real server and a real runner for benchmarks that run the engine, with or without network delay, and watches jobs."""

import contextlib
import json
import time
from collections.abc import Generator
from typing import Any, NamedTuple

from terracrew.client.address import segment
from tests.bench import cpu
from tests.bench.filled_server import Env, filled
from tests.bench.proxy import distant
from tests.e2e.system import ACTIVE, Process, System, eventually

MODULE = """
resource "terraform_data" "hello" { input = "hello world" }
output "greeting" { value = terraform_data.hello.output }
"""


_REST_SECONDS = 0.2


class Crewed(NamedTuple):
    system: System
    server: Process
    runner: Process


@contextlib.contextmanager
def crewed(env: Env, *, capacity: int = 4, is_distant: bool = False, is_isolated: bool = True) -> Generator[Crewed]:
    """A server on SQLite and one runner, connected; between them, where that is wanted, 50 ms of round trip."""
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(filled(env, "sqlite", runners=0, modules=0))
        system = there.system
        credentials = system.register_runner(max_jobs=100) | {"TERRACREW_RUNNER__CAPACITY": str(capacity)}
        if not is_isolated:
            credentials["TERRACREW_EXECUTOR__ISOLATION"] = "none"
        near = system.url
        system.url = stack.enter_context(distant(near)) if is_distant else near
        runner = system.start_runner(credentials)
        system.url = near
        eventually(lambda: _is_online(system), what="the runner's connection")
        cpu.wait_until_quiet(there.process.pid)
        yield Crewed(system, there.process, runner)


def _is_online(system: System) -> bool:
    return any(runner["status"] == "ONLINE" for runner in system.api.get("/runners")["items"])


def rest() -> None:
    """Wait until nothing of the last job is left to do. What a runner does between jobs must slow down neither side of a comparison."""
    time.sleep(_REST_SECONDS)


def timed(system: System, module: str, kind: str = "PLAN", **asked: Any) -> tuple[float, dict[str, Any]]:
    """Return the seconds from the request until a watcher learns that the job has ended, and the job."""
    began = time.perf_counter()
    job_id = system.api.post(f"/modules/{segment(module)}/jobs", {"type": kind, **asked})["id"]
    job = ended(system, job_id)
    seconds = time.perf_counter() - began
    if job["status"] != "SUCCEEDED":
        raise RuntimeError(f"{module}: {job['status']}: {job['message']}\n{system.log(job_id)[-2000:]}")
    return seconds, job


def ended(system: System, job_id: str) -> dict[str, Any]:
    """Follow a job by its stream and return it when it has ended."""
    for event in system.api.events(f"/jobs/{job_id}/log/stream"):
        if event.name == "job" and (job := json.loads(event.data))["status"] not in ACTIVE:
            return job
    raise RuntimeError("the stream ended without the job's end")
