"""`cpu_ms_per_plan`: the CPU time that executor, runner and server use for one of the smallest plans, beside the engine's own."""

import time

import psutil

from tests.bench.figures import median
from tests.bench.filled_server import Env
from tests.bench.real import MODULE, crewed, ended, timed
from tests.e2e.system import Process, System

PLANS = 30
_LOOK_SECONDS = 5.0
_PROCESS_CLOCK = 2
_POLL_SECONDS = 0.001


def run(env: Env) -> dict[str, float]:
    with crewed(env) as (system, server, runner):
        system.module("m", MODULE)
        timed(system, "m")  # the first one fills caches
        alone = _idle_ms(runner, server)
        zygote = psutil.Process(runner.pid).children()[0].pid
        others = (zygote, runner.pid, server.pid)
        before = [_cpu_ms(pid) for pid in others]
        executors = [_executor_ms(system) for _ in range(PLANS)]
        forks, runners, servers = ((_cpu_ms(pid) - was) / PLANS for pid, was in zip(others, before, strict=True))
    executor = median(executors)
    env.say(
        f"cpu_ms_per_plan: executor {executor + forks:.1f} ({forks:.1f} of it to fork it), runner {runners:.1f}, server {servers:.1f}, "
        f"including what they use without a job: runner {alone[0]:.1f} a second, server {alone[1]:.1f} a second"
    )
    return {
        "cpu_ms_per_plan.executor": executor + forks,
        "cpu_ms_per_plan.runner": runners,
        "cpu_ms_per_plan.server": servers,
    }


def _executor_ms(system: System) -> float:
    """Run a plan and return the CPU time of its executor without its engine, as it was in the last millisecond before the end."""
    job_id = system.run("m")
    executor = system.executor(job_id)
    if (job := ended(system, job_id))["status"] != "SUCCEEDED":
        raise RuntimeError(f"the plan is {job['status']}: {job['message']}")
    used = 0.0
    while True:
        try:
            used = _cpu_ms(executor)
        except OSError:
            return used
        time.sleep(_POLL_SECONDS)


def _idle_ms(*processes: Process) -> list[float]:
    """Return the CPU time that each of these processes uses in a second."""
    before = [_cpu_ms(each.pid) for each in processes]
    time.sleep(_LOOK_SECONDS)
    return [(_cpu_ms(each.pid) - was) / _LOOK_SECONDS for each, was in zip(processes, before, strict=True)]


def _cpu_ms(pid: int) -> float:
    """Return the CPU time of all threads of a process, without its children. This is `clock_getcpuclockid` of the C library."""
    return 1000 * time.clock_gettime(~pid << 3 | _PROCESS_CLOCK)
