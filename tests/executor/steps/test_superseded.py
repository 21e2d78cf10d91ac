"""Attempts that another has taken the place of: they deliver all they have, and start nothing more."""

import json

import pytest

from terracrew.protocol import version
from terracrew.protocol.events import Stream
from terracrew.protocol.messages import BeginRefused, Begun, ExecutorWelcome, SupersededNotice
from terracrew.protocol.spec import JobType, StateSeed
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, joined, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import at_the_gate, gated, killed_alone, statuses

pytestmark = [pytest.mark.engine, pytest.mark.feature("O3.fenced")]


def fenced(mark: int) -> ExecutorWelcome:
    return ExecutorWelcome(mark, version.NEWEST_VERSION, is_superseded=True)


async def test_what_an_attempt_fenced_in_mid_apply_left_is_delivered_after_its_executor_died(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=gated(gate))))
    await at_the_gate(hub)
    await hub.tell(SupersededNotice("attempt 2 is the current one"))
    hub.welcome = fenced
    await killed_alone(executor, gate)
    salvage = await executors.salvage()
    assert await salvage.exit_code() == 0, salvage.said
    assert joined(hub.log()) == joined(executor.printed)
    _, fact, content = hub.states[-1]
    assert fact.origin == "errored"
    assert sorted(resource["name"] for resource in json.loads(content)["resources"]) == ["first", "held"]
    assert (executor.directory / "done").exists()


async def test_an_attempt_fenced_while_it_was_cut_off_in_mid_apply_finishes_the_run_and_delivers(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=gated(gate))))
    await at_the_gate(hub)
    await hub.stop()
    await gate.open()
    await executor.until_printed(b"Apply complete!")
    hub.welcome = fenced
    await hub.start()
    assert await executor.exit_code() == 0, executor.said
    assert len(json.loads(hub.states[-1][2])["resources"]) == 2
    assert "apply SUCCEEDED" in statuses(hub)
    assert joined(hub.log()) == joined(executor.printed)


async def test_a_state_that_only_the_current_attempt_may_read_ends_a_superseded_one_without_a_failure(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """It was: `apply was not started: the current state cannot be had: … no longer the current one`, as a failure."""
    hub.answer_begin = lambda _: BeginRefused("state_moved", "the state moved")
    hub.state_problem = {"code": "superseded", "detail": "this attempt is no longer the current one"}
    executor = await executors.run(
        executors.spec(JobType.APPLY, module(executors.folder / "source", main=""), state=StateSeed(1))
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "CANCELED"
    assert hub.result.message == "stopped before apply: this attempt is no longer the current one"


async def test_the_reason_for_a_wait_is_said_once(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    answers = [
        BeginRefused("wait", "an attempt that was lost is heard"),
        BeginRefused("wait", "an attempt that was lost is heard"),
    ]
    hub.answer_begin = lambda version: answers.pop() if answers else Begun(version)
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main="")))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert len(hub.begins) == 3
    assert hub.log(Stream.SYSTEM).count(b"an attempt that was lost is heard") == 1
