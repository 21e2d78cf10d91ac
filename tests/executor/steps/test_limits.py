"""Limits of an attempt: the engine is interrupted so that it can save, and the end of the job names the limit. OpenTofu runs."""

from pathlib import Path

import pytest

from terracrew.executor.control import Control
from terracrew.executor.limits.usage import AttemptUsage, KernelLimits
from terracrew.executor.limits.watch import DEFAULT_PROCESSES, LimitWatch
from terracrew.protocol.events import StepStatus, Stream
from terracrew.protocol.spec import Hook, JobLimits, JobType, Step, StepHook
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, module, session
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, ended, gated, hook_before, statuses, with_argument

MEGABYTE = 1 << 20


@pytest.mark.engine
@pytest.mark.feature("J10.limits")
async def test_an_apply_past_its_time_limit_is_interrupted_and_its_state_is_saved(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    limits = JobLimits(step_seconds={Step.APPLY: 1})
    main = gated(Gate(executors.folder))
    spec = executors.spec(JobType.APPLY, module(executors.folder / "source", main=main), limits=limits)
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus(Step.APPLY, "FAILED", 1, is_cut_short=False)
    assert hub.states, "the resource that was made before the limit is in a state"
    assert (hub.result.status, hub.result.failure_kind, hub.result.is_lock_free) == ("FAILED", "time_limit", True)
    assert hub.result.message.startswith("apply has reached its time limit of 1 s: it was interrupted and ended after ")
    assert hub.result.message.endswith(" in this step; it ended in order, so its state is complete")
    assert b"It is interrupted, so that it can save its state" in hub.log(Stream.SYSTEM)
    assert "output SKIPPED" in statuses(hub)


@pytest.mark.engine
@pytest.mark.feature("J10.limits", "H1.scripts")
async def test_hooks_count_within_the_limit_of_their_step_and_a_hook_that_ignores_signals_is_killed(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    stubborn = "#!/bin/sh\ntrap '' INT TERM HUP\nsetsid --fork sleep 100\nwhile true; do sleep 1; done\n"
    spec = executors.spec(
        JobType.PLAN,
        module(executors.folder / "source", main=SMALL_MODULE),
        hooks=[hook_before(Step.PLAN, stubborn), StepHook(Step.PLAN, "after", Hook(command=["echo", "HOOK"]), "acme")],
        limits=JobLimits(step_seconds={Step.PLAN: 1}),
    )
    executor = await executors.run(spec, interrupt_seconds=(0.1, 0.1))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.failure_kind == "time_limit"
    assert "it was interrupted, did not end, and was killed after 1." in hub.result.message
    assert "(the hook before plan of `acme` was ended by signal 9)" in hub.result.message
    assert b"HOOK" not in hub.log(), "no hook runs after the limit"
    assert session(executor.process.pid) == []


@pytest.mark.engine
@pytest.mark.feature("J10.limits")
async def test_the_limit_of_a_job_counts_all_its_steps(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    slow = hook_before(Step.VALIDATE, "#!/bin/sh\nexec sleep 100\n")
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(
        executors.spec(JobType.PLAN, source, hooks=[slow], limits=JobLimits(job_seconds=2)), interrupt_seconds=(1, 1)
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.message.startswith("the job has reached its time limit of 2 s in validate: it was interrupted")
    assert hub.result.failure_kind == "time_limit"


@pytest.mark.engine
@pytest.mark.feature("J10.memory")
async def test_a_program_that_takes_too_much_memory_is_interrupted_before_it_reaches_the_limit(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    grow = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGINT, lambda *_: (print('SAVED', flush=True), sys.exit(7)))\n"
        "kept = []\n"
        "while True:\n    kept.append(bytearray(b'x' * (4 << 20)))\n    time.sleep(0.05)\n"
    )
    greedy = hook_before(Step.PLAN, command=["python3", "-c", grow])
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(
        executors.spec(JobType.PLAN, source, hooks=[greedy], limits=JobLimits(memory_mb=128))
    )
    assert await executor.exit_code() == 0, executor.said
    assert b"SAVED" in hub.log(), "it was interrupted and could save"
    assert b"every 0.2 s and not enforced by the kernel" in hub.log(Stream.SYSTEM)
    assert (hub.result.status, hub.result.failure_kind) == ("FAILED", "out_of_memory")
    assert "MB of memory, and the limit is 128 MB: it was interrupted and ended after" in hub.result.message


@pytest.mark.engine
@pytest.mark.feature("J10.memory", "J9.reported")
async def test_a_hook_that_forks_forever_is_ended_with_all_of_its_processes(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """Its processes ignore signals, have lost their parents and are in sessions of their own."""
    mark = str(executors.folder / "mark")
    script = (
        f"#!/bin/sh\ntrap '' INT TERM HUP\nwhile sleep 0.01; do setsid --fork sh -c 'sleep 60; exit' {mark}; done\n"
    )
    forking = hook_before(Step.PLAN, script)
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(
        executors.spec(JobType.PLAN, source, hooks=[forking], limits=JobLimits(processes=40)),
        interrupt_seconds=(0.2, 0.2),
    )
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.failure_kind) == ("FAILED", "process_limit")
    assert "processes and threads, and the limit is 40: it was" in hub.result.message
    assert with_argument(mark) == []


# ---- the rules, with a clock and a usage of the test


class Machine:
    def __init__(self, limits: JobLimits, kernel: KernelLimits | None = None) -> None:
        self.now, self.used = 1000.0, AttemptUsage(0, 1)
        self.control, self.said = Control(), list[str]()
        self.watch = LimitWatch(
            limits, self.control, self.said.append, kernel, clock=lambda: self.now, measure=lambda: self.used
        )
        self.watch.enter(Step.APPLY)

    def look(self, **changes: object) -> tuple[str, str] | None:
        for name, value in changes.items():
            setattr(self, name, value)
        self.watch.look()
        limit = self.control.limit
        return limit and (limit.failure_kind, limit.mode)


@pytest.mark.feature("J10.memory")
def test_memory_is_first_a_reason_to_interrupt_and_then_to_kill() -> None:
    machine = Machine(JobLimits(memory_mb=100))
    assert machine.look(used=AttemptUsage(89 * MEGABYTE, 5)) is None
    assert machine.look(used=AttemptUsage(90 * MEGABYTE, 5)) == ("out_of_memory", "interrupt")
    assert machine.look(used=AttemptUsage(95 * MEGABYTE, 5)) == ("out_of_memory", "interrupt")
    assert machine.control.stop_mode(is_mutating=True) == "interrupt", "an apply is interrupted, too"
    assert machine.look(used=AttemptUsage(101 * MEGABYTE, 5)) == ("out_of_memory", "kill")
    assert len(machine.said) == 2


@pytest.mark.feature("J10.memory")
def test_without_a_limit_of_its_own_a_job_still_cannot_fork_forever() -> None:
    machine = Machine(JobLimits())
    assert machine.look(used=AttemptUsage(1 << 40, DEFAULT_PROCESSES)) is None
    assert machine.look(used=AttemptUsage(0, DEFAULT_PROCESSES + 1)) == ("process_limit", "interrupt")
    assert machine.look(used=AttemptUsage(0, 2 * DEFAULT_PROCESSES)) == ("process_limit", "kill")


@pytest.mark.feature("J10.limits")
def test_the_time_of_a_step_counts_from_its_start_and_that_of_the_job_from_the_first() -> None:
    machine = Machine(JobLimits(job_seconds=100, step_seconds={Step.APPLY: 60}))
    machine.watch.enter(Step.PLAN)
    assert machine.look(now=1050.0) is None
    machine.watch.enter(Step.APPLY)
    assert machine.look(now=1099.0) is None
    assert machine.look(now=1100.0) == ("time_limit", "interrupt")
    assert machine.control.limit is not None
    assert machine.control.limit.text == "the job has reached its time limit of 1 m 40 s in apply"


@pytest.mark.feature("J10.memory")
def test_a_cgroup_with_controllers_is_no_longer_slowed_down_after_the_interrupt(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text(f"{100 * MEGABYTE}\n")
    (tmp_path / "memory.high").write_text(f"{90 * MEGABYTE}\n")
    (tmp_path / "pids.max").write_text("max\n")
    machine = Machine(JobLimits(memory_mb=100, processes=50), KernelLimits(str(tmp_path)))
    assert machine.watch.explain().startswith("The limit of processes is checked every 0.2 s and not enforced")
    machine.look(used=AttemptUsage(91 * MEGABYTE, 5))
    assert (tmp_path / "memory.high").read_text() == "max"
