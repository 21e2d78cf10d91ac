"""Cancelling: a request that reaches the engine by a ladder, and is reported only when the engine is gone."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from terracrew.executor.engines.process import EngineProcess, StopDelays
from terracrew.protocol.events import OutputsRead, Result, StepStatus, Stream
from terracrew.protocol.messages import CancelAttempt, CancelMode
from terracrew.protocol.spec import JobType
from terracrew.system import procfs
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, Gate, module, session
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import applying, ended, with_argument, wrapped


@pytest.mark.engine
@pytest.mark.feature("J9.modes")
async def test_cancel_after_the_step_lets_a_change_finish_with_its_outputs(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """`CANCELED: canceled before output`, although everything was applied: the outputs were those of an older job."""
    executor, gate = await applying(hub, executors)
    await hub.tell(CancelAttempt("job_1", 1, "after_step"))
    await gate.open()
    assert await executor.exit_code() == 0
    assert StepStatus("apply", "SUCCEEDED", 0, is_cut_short=False) in hub.facts
    assert StepStatus("output", "SUCCEEDED", 0, is_cut_short=False) in hub.facts
    assert any(isinstance(each, OutputsRead) for each in hub.facts)
    assert hub.result == Result("SUCCEEDED", "it was asked to stop during the change, which was carried out to its end")


@pytest.mark.engine
@pytest.mark.feature("J9.modes")
async def test_a_job_that_is_interrupted_before_its_outputs_says_that_the_change_was_carried_out(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    mark = executors.folder / "canceled"
    script = f'if [ "$1" = output ]; then until [ -e {mark} ]; do sleep 0.05; done; sleep 1; exit 1; fi'
    program = wrapped(executors, tofu, script)
    source = module(executors.folder / "source", main='resource "terraform_data" "a" {}\n')
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    await hub.until(lambda: StepStatus("output", "RUNNING") in hub.facts)
    await hub.tell(CancelAttempt("job_1", 1, "interrupt"))
    mark.touch()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result is not None
    assert (hub.result.status, hub.result.message) == (
        "CANCELED",
        "the change was carried out to its end, but its outputs are not kept: canceled during output",
    )


@pytest.mark.engine
@pytest.mark.feature("J9.modes")
async def test_a_plan_that_cannot_be_described_fails_because_nobody_knows_what_it_would_do(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    mark = executors.folder / "canceled"
    script = f'if [ "$1" = show ]; then until [ -e {mark} ]; do sleep 0.05; done; sleep 1; exit 1; fi'
    program = wrapped(executors, tofu, script)
    source = module(executors.folder / "source", main='resource "terraform_data" "a" {}\n')
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    await hub.until(lambda: b"1 to add" in hub.log())
    await hub.tell(CancelAttempt("job_1", 1, "after_step"))
    mark.touch()
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.message) == ("FAILED", "plan failed: exit code 1")
    assert b"the engine could not describe it" in hub.log(Stream.SYSTEM)


async def _escaping(
    hub: FakeExecutorHub, executors: ExecutorProcesses, ignored: str = "HUP"
) -> tuple[Executor, Gate, int]:
    """An apply that stands at the gate, and a process of its provisioner that has started its own session."""
    gate, pid = Gate(executors.folder), executors.folder / "escaped"
    script = f"trap '' {ignored}; echo $$ > {pid}; while true; do sleep 1; done"
    (executors.folder / "script").write_text(script)
    escape = f"setsid --fork sh {executors.folder / 'script'} > /dev/null 2>&1"
    held = f'resource "terraform_data" "held" {{\n  {gate.provisioner(before=escape)}\n}}\n'
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=held)))
    await hub.until(lambda: b"(local-exec):\x1b[0m \x1b[0mat the gate" in hub.log())
    async with asyncio.timeout(20):
        while not (pid.exists() and pid.read_text().strip()):
            await asyncio.sleep(0.01)
    return executor, gate, int(pid.read_text())


def _is_alive(pid: int) -> bool:
    found = procfs.stat(pid)
    return found is not None and found.is_alive


@pytest.mark.engine
@pytest.mark.feature("J9.reported", "O3.doubt")
@pytest.mark.parametrize("mode", ["interrupt", "kill"])
async def test_a_canceled_apply_is_reported_when_every_process_is_gone(
    hub: FakeExecutorHub, executors: ExecutorProcesses, mode: CancelMode
) -> None:
    """Symptom: a provisioner that started its own session (`setsid`) went on after its job was reported as canceled."""
    executor, _, escaped = await _escaping(hub, executors)
    await hub.tell(CancelAttempt("job_1", 1, mode))
    await hub.until(lambda: hub.has_result)
    left = set(session(executor.process.pid)) - {executor.process.pid}
    assert not _is_alive(escaped)
    assert await executor.exit_code() == 0, executor.said
    assert left == set()
    assert hub.result == Result("CANCELED", "canceled during apply", is_lock_free=True)
    assert hub.facts[-1] == hub.result
    if mode == "interrupt":
        assert ended(hub) == StepStatus("apply", "CANCELED", 1, is_cut_short=False), "this is an orderly end"
        assert hub.states, "an interrupted engine saves its state"
    else:
        assert ended(hub) == StepStatus("apply", "CANCELED", -signal.SIGKILL, is_cut_short=True)


@pytest.mark.engine
@pytest.mark.feature("J9.escalation")
async def test_a_kill_with_the_modules_own_backend_is_reported_with_a_lock_that_may_still_be_held(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor, _ = await applying(hub, executors, backend="own")
    await hub.tell(CancelAttempt("job_1", 1, "kill"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result == Result("CANCELED", "canceled during apply", is_lock_free=False)


@pytest.mark.engine
@pytest.mark.feature("J9.reported")
async def test_a_process_in_another_session_does_not_outlive_the_step_that_started_it(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor, gate, escaped = await _escaping(hub, executors, ignored="INT TERM HUP")
    await gate.open()
    await hub.until(lambda: StepStatus("apply", "SUCCEEDED", 0, is_cut_short=False) in hub.facts)
    assert not _is_alive(escaped)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"


@pytest.mark.engine
@pytest.mark.feature("J9.escalation", "J9.reported")
async def test_children_that_ignore_signals_hold_pipes_and_leave_the_session_end_with_the_escalation(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """The engine waits for the pipe that a child holds, so it is interrupted twice and then killed, with everything it started."""
    gate, mark = Gate(executors.folder), executors.folder / "mark"
    script = executors.folder / "children"
    script.write_text(
        "trap '' INT TERM HUP\n"
        f"sh -c 'sleep 100; exit' {mark} &\n"  # ignores signals, and holds the pipe to the engine
        f"setsid --fork sh -c 'sleep 100; exit' {mark}\n"  # has lost its parent, in a session of its own
        f"setsid sh -c '(setsid sh -c \"sleep 100; exit\" {mark} &) ; sleep 100; exit' {mark} > /dev/null 2>&1 &\n"
    )
    held = f'resource "terraform_data" "held" {{\n  {gate.provisioner(before=f"sh {script}")}\n}}\n'
    source = module(executors.folder / "source", main=held)
    executor = await executors.run(executors.spec(JobType.APPLY, source), interrupt_seconds=(0.5, 0.5))
    await hub.until(lambda: b"(local-exec):\x1b[0m \x1b[0mat the gate" in hub.log())
    assert len(with_argument(str(mark))) >= 4
    await hub.tell(CancelAttempt("job_1", 1, "interrupt"))
    await hub.until(lambda: hub.has_result)
    assert with_argument(str(mark)) == [], "the end is reported when every process has exited"
    assert (hub.result.status, hub.result.is_lock_free) == ("CANCELED", True)
    assert await executor.exit_code() == 0, executor.said
    assert session(executor.process.pid) == []


# ---- the ladder itself


def stubborn(folder: Path, script: str, first: float = 0.1) -> tuple[EngineProcess, Path]:
    """A program that says when it is ready, and what it was sent."""
    output = folder / "output"
    descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    process = EngineProcess(
        ["/bin/sh", "-c", script],
        cwd=folder,
        env={"PATH": os.environ["PATH"]},
        output=descriptor,
        stop_delays=StopDelays(first=first, second=0.1),
    )
    os.close(descriptor)
    return process, output


async def ready(folder: Path) -> None:
    """Until the program has opened the pipe, which it does when its traps are set."""
    await asyncio.wait_for(asyncio.to_thread((folder / "ready").read_bytes), 20)


@pytest.mark.feature("J9.escalation")
async def test_the_ladder_interrupts_twice_and_then_kills_the_whole_group(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    script = "trap 'echo interrupted' INT; (trap '' INT; exec sleep 100) & : > ready; while true; do wait; done"
    process, output = stubborn(tmp_path, script)
    await ready(tmp_path)
    process.stop("interrupt")
    assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGKILL
    assert process.was_killed
    assert output.read_text() == "interrupted\ninterrupted\n"
    await asyncio.wait_for(_no_group(process.pid), 20)


@pytest.mark.feature("J9.escalation")
async def test_an_engine_that_heeds_the_first_interrupt_is_not_sent_another(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    process, output = stubborn(tmp_path, "trap 'echo interrupted; exit 7' INT; : > ready; sleep 100 & wait")
    await ready(tmp_path)
    process.stop("interrupt")
    process.stop("interrupt")
    assert await asyncio.wait_for(process.wait(), 20) == 7
    assert not process.was_killed
    assert output.read_text() == "interrupted\n"


@pytest.mark.feature("J9.escalation")
async def test_a_kill_overtakes_the_ladder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    process, _ = stubborn(tmp_path, "trap '' INT; : > ready; sleep 100", first=1000)
    await ready(tmp_path)
    process.stop("interrupt")
    process.stop("kill")
    assert await asyncio.wait_for(process.wait(), 20) == -signal.SIGKILL


async def test_what_an_engine_leaves_behind_in_its_group_ends_with_it(tmp_path: Path) -> None:
    process, _ = stubborn(tmp_path, "sleep 100 & exit 0")
    assert await asyncio.wait_for(process.wait(), 20) == 0
    await asyncio.wait_for(_no_group(process.pid), 20)


async def _no_group(group: int) -> None:
    """A killed process stays for a moment until init has reaped it."""
    while True:
        members = [pid for pid in os.listdir("/proc") if pid.isdigit() and _group_of(pid) == group]
        if not members:
            return
        await asyncio.sleep(0)


def _group_of(pid: str) -> int | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return None
    return int(fields[2]) if fields[0] != "Z" else None
