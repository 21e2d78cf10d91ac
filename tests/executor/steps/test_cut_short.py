"""Whether a change was cut short: each end of a mutating step says if what the engine made may be in no state."""

import os
import signal
from pathlib import Path

import pytest

from terracrew.protocol.events import StepStatus, Stream
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, Gate, module, session
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import applying, ended, gated_plan, wrapped

pytestmark = [pytest.mark.engine, pytest.mark.feature("O3.doubt")]


def engine_of(executor: Executor, program: str = "apply") -> int:
    """The process of the engine's running command."""
    for pid in session(executor.process.pid):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        if pid != executor.process.pid and program.encode() in words:
            return pid
    raise AssertionError("no engine is running")


@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGKILL, -9), (signal.SIGQUIT, 2)])
async def test_an_engine_killed_in_an_apply_while_its_executor_lives_is_reported_as_cut_short(
    hub: FakeExecutorHub, executors: ExecutorProcesses, number: signal.Signals, exit_code: int
) -> None:
    """The step said FAILED like any other, and the next apply made everything again without a question.

    Go ends with exit code 2 after SIGQUIT, as after any fatal error of its runtime: the engine did not choose this end.
    """
    executor, _ = await applying(hub, executors)
    os.kill(engine_of(executor), number)
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus("apply", "FAILED", exit_code, is_cut_short=True)
    if number is signal.SIGKILL:
        assert hub.result.message == "apply failed: ended by signal 9"


async def test_an_engine_that_is_interrupted_twice_gives_up_its_state_and_is_cut_short(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """It ends with exit code 1 like after any failed apply, but says that data loss may have occurred."""
    gate = Gate(executors.folder)
    held = gated_plan(gate, "output")
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=held)))
    await gate.reached()
    engine = engine_of(executor)
    os.kill(engine, signal.SIGINT)
    await executor.until_printed(b"Interrupt received")
    os.kill(engine, signal.SIGINT)
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus("apply", "CANCELED", 1, is_cut_short=True)
    assert hub.result.message.startswith("stopped during apply: the engine was interrupted from outside")


async def test_a_failed_apply_that_the_engine_ended_itself_is_not_cut_short(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    failing = 'resource "terraform_data" "a" {\n  provisioner "local-exec" { command = "exit 7" }\n}\n'
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=failing)))
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus("apply", "FAILED", 1, is_cut_short=False)
    assert hub.result.status == "FAILED"


async def test_an_engine_that_cannot_be_started_has_cut_nothing_short(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    # Not at its start: the engine that describes the plan is started ahead.
    program = wrapped(executors, tofu, f'if [ "$1" = show ]; then {tofu} "$@"; code=$?; rm "$0"; exit $code; fi')
    source = module(executors.folder / "source", main='resource "terraform_data" "a" {}\n')
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus("apply", "FAILED", is_cut_short=False)
    assert "apply failed" in hub.result.message


async def test_a_state_that_the_engine_left_unreadable_is_delivered_unchanged_and_is_no_orderly_end(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A file that was no JSON was dropped with one line in the log, and the only copy went with the workspace."""
    leaving = """resource "terraform_data" "a" {
      provisioner "local-exec" { command = "printf '{\\"serial\\": 4' > errored.tfstate" }
    }
    """
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=leaving)))
    assert await executor.exit_code() == 0, executor.said
    _, fact, content = hub.states[-1]
    assert content == b'{"serial": 4'
    assert (fact.origin, fact.serial, fact.lineage, fact.resources) == ("errored", 0, "", None)
    assert "this is not a state" in fact.problem
    assert ended(hub) == StepStatus("apply", "SUCCEEDED", 0, is_cut_short=True)
    assert b"errored.tfstate cannot be read" in hub.log(Stream.SYSTEM)


async def test_a_file_that_is_too_large_for_a_state_is_not_read_and_is_no_orderly_end(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A job left a sparse file of 8 GB (`truncate -s 8G`), and its executor read it whole into memory."""
    leaving = """resource "terraform_data" "a" {
      provisioner "local-exec" { command = "truncate -s 8G errored.tfstate" }
    }
    """
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=leaving)))
    assert await executor.exit_code() == 0, executor.said
    assert all(fact.origin == "engine" for _, fact, _ in hub.states)
    assert ended(hub) == StepStatus("apply", "SUCCEEDED", 0, is_cut_short=True)
    assert b"errored.tfstate has more than the 268,435,456 bytes" in hub.log(Stream.SYSTEM)


# ---- told to end by a signal


@pytest.mark.parametrize("reaches_engine", [False, True], ids=["the executor alone", "the engine, too"])
async def test_a_sigterm_that_nobody_asked_for_says_what_it_was_and_the_engine_saves_its_state(
    hub: FakeExecutorHub, executors: ExecutorProcesses, reaches_engine: bool
) -> None:
    """A reboot ended a job CANCELED as if a person had canceled it.

    A service manager sends the signal to every process of a service. With an interrupt of the executor's own on top of it, the
    engine gave up its state.
    """
    executor, _ = await applying(hub, executors)
    engine = engine_of(executor)
    executor.kill(signal.SIGTERM)
    if reaches_engine:
        os.kill(engine, signal.SIGTERM)
    assert await executor.exit_code() == 0, executor.said
    reason = "the executor was told to end by SIGTERM (the host is shutting down, or its service was stopped)"
    assert hub.result.status == "CANCELED"
    assert hub.result.message == f"stopped during apply: {reason}"
    assert f"Stopping: {reason}".encode() in hub.log(Stream.SYSTEM)
    assert ended(hub) == StepStatus("apply", "CANCELED", 1, is_cut_short=False)
    assert hub.states, "an interrupted engine saves its state"
    assert b"Two interrupts" not in hub.log()


async def test_an_engine_that_ends_before_its_executor_hears_of_the_shutdown_has_not_failed(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """Both get the signal, in any order: the job was FAILED where the engine was the faster one."""
    executor, _ = await applying(hub, executors)
    os.kill(engine_of(executor), signal.SIGTERM)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "CANCELED"
    assert hub.result.message.startswith("stopped during apply: the engine was interrupted from outside")
    assert ended(hub) == StepStatus("apply", "CANCELED", 1, is_cut_short=False)


async def test_a_sigterm_before_anything_was_changed_skips_the_change(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    held = gated_plan(gate)
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=held)))
    await gate.reached()
    executor.kill(signal.SIGTERM)
    await executor.until_printed(b"Interrupt received")
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    assert ended(hub) == StepStatus("apply", "SKIPPED")
    assert "told to end by SIGTERM" in hub.result.message
