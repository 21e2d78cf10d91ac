"""The engine of the next command is started while another one runs, and a job ends as if it were not."""

import asyncio
import contextlib
import os
from pathlib import Path

import pytest

from terracrew.executor.isolation import landlock
from terracrew.protocol.messages import CancelAttempt
from terracrew.protocol.spec import ArchiveSource, JobLimits, JobType, Step
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import Executor, ExecutorProcesses, Gate, module, session
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, gated_plan, hook_before, wrapped

pytestmark = [
    pytest.mark.engine,
    pytest.mark.feature("J3.ahead"),
    pytest.mark.skipif(not landlock.abi(), reason="this kernel has no Landlock"),
]


async def _planning(
    hub: FakeExecutorHub, executors: ExecutorProcesses, kind: JobType = JobType.PLAN, **start: object
) -> tuple[Executor, Gate]:
    """A job whose plan stands at a gate of the module."""
    gate = Gate(executors.folder)
    source = module(executors.folder / "source", main=gated_plan(gate))
    executor = await executors.run(executors.spec(kind, source), **start)
    await gate.reached()
    return executor, gate


def _commands(executor: Executor) -> list[str]:
    """The commands of the engines that run now."""
    return sorted(command for command in ("init", "plan", "show", "apply") for _ in _pids(executor, command))


def _pids(executor: Executor, command: str) -> list[int]:
    """The processes of the engine that run this command."""
    found: list[int] = []
    for pid in session(executor.process.pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            if os.path.basename(arguments[0]) == "tofu" and arguments[1] == command:
                found.append(pid)
    return found


async def _until_commands(executor: Executor, commands: list[str]) -> None:
    async with asyncio.timeout(20):
        while _commands(executor) != commands:
            await asyncio.sleep(0.01)


async def test_the_plan_loads_while_the_source_is_fetched(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    hub.archive = module(executors.folder / "source", main=SMALL_MODULE)
    hub.sends_archive.clear()
    executor = await executors.run(executors.spec(JobType.PLAN, ArchiveSource("arc_1")))
    await _until_commands(executor, ["plan"])
    [waiting] = [pid for pid in session(executor.process.pid) if pid != executor.process.pid]
    hub.sends_archive.set()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"
    assert b"terraform_data.it" in hub.log(step="plan")
    assert waiting not in session(executor.process.pid)


async def test_a_source_that_never_comes_ends_the_waiting_plan(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    hub.archive = b"no archive"
    executor = await executors.run(executors.spec(JobType.PLAN, ArchiveSource("arc_1")))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert hub.log(step="plan") == b""
    assert session(executor.process.pid) == []


async def test_the_description_of_a_plan_waits_while_the_plan_is_made(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor, gate = await _planning(hub, executors)
    await _until_commands(executor, ["plan", "show"])
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"
    assert session(executor.process.pid) == []


async def test_a_canceled_plan_is_reported_when_the_waiting_engine_is_gone_too(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    executor, _ = await _planning(hub, executors)
    await _until_commands(executor, ["plan", "show"])
    await hub.tell(CancelAttempt("job_1", 1, "kill"))
    await hub.until(lambda: hub.has_result)
    assert hub.result.status == "CANCELED"
    assert _commands(executor) == []
    assert await executor.exit_code() == 0, executor.said


async def test_every_engine_of_a_killed_executor_ends_by_itself(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """Symptom: the runner waits until the engine of a dead executor has ended, and one that waits at its gate never would."""
    executor, gate = await _planning(hub, executors)
    await _until_commands(executor, ["plan", "show"])
    executor.kill()
    await _until_commands(executor, ["plan"])
    await gate.open()
    await _until_commands(executor, [])


async def test_the_engine_that_waited_is_the_one_that_plans(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    gate = Gate(executors.folder)
    hub.archive = module(executors.folder / "source", main=gated_plan(gate))
    hub.sends_archive.clear()
    executor = await executors.run(executors.spec(JobType.PLAN, ArchiveSource("arc_1")))
    await _until_commands(executor, ["plan"])
    waiting = _pids(executor, "plan")
    hub.sends_archive.set()
    await gate.reached()
    assert _pids(executor, "plan") == waiting
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"


@pytest.mark.parametrize(
    "script", ['{tofu} "$@"; code=$?; sleep 0.2; exit $code', 'exec {tofu} "$@"'], ids=["child", "exec"]
)
async def test_an_engine_below_a_wrapper_waits_and_goes_on_too(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str, script: str
) -> None:
    """Symptom: at the end of `init`, the engine below a wrapper that waited was killed, and the plan failed."""
    program = wrapped(executors, tofu, script.format(tofu=tofu))
    executor = await executors.run(
        executors.spec(JobType.PLAN, module(executors.folder / "source", main=SMALL_MODULE)), engine_paths=[program]
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert session(executor.process.pid) == []


async def test_a_wrapper_that_is_given_up_is_gone_with_its_engine(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    """Symptom: the engine went on when its wrapper was killed, and planned in an empty folder after the job had ended."""
    program = wrapped(executors, tofu, f'{tofu} "$@"; exit $?')
    hub.archive = b"no archive"
    hub.sends_archive.clear()
    executor = await executors.run(executors.spec(JobType.PLAN, ArchiveSource("arc_1")), engine_paths=[program])
    await _until_commands(executor, ["plan"])
    hub.sends_archive.set()
    await hub.until(lambda: hub.has_result)
    assert hub.result.status == "FAILED"
    assert set(session(executor.process.pid)) <= {executor.process.pid}
    assert await executor.exit_code() == 0, executor.said
    assert executor.printed == b""


async def test_a_configuration_that_vanishes_while_an_engine_waits_costs_another_start(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    (configuration := executors.folder / "tofurc").write_text("# of the operator\n")
    executors.environment["TF_CLI_CONFIG_FILE"] = str(configuration)
    executor, gate = await _planning(hub, executors)
    await _until_commands(executor, ["plan", "show"])
    configuration.unlink()
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"
    assert session(executor.process.pid) == []


async def test_the_log_of_an_engine_stays_in_its_step(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """Symptom: with TF_LOG, a waiting engine prints how it was started, and this was among the lines of `init`."""
    executors.environment["TF_LOG"] = "info"
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.PLAN, source))
    assert await executor.exit_code() == 0, executor.said
    assert b'"plan"' not in hub.log(step="init")
    assert b'"plan"' in hub.log(step="plan")


async def test_only_what_a_job_needs_is_started_ahead(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """An apply starts no engine ahead of its permission: a waiting engine never makes a change."""
    gate = Gate(executors.folder)
    held = f'resource "terraform_data" "held" {{\n  {gate.provisioner()}\n}}\n'
    executor = await executors.run(executors.spec(JobType.APPLY, module(executors.folder / "source", main=held)))
    await gate.reached()
    assert _commands(executor) == ["apply"]
    await gate.open()
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"


@pytest.mark.parametrize("limits", [JobLimits(memory_mb=2000), JobLimits(processes=500)], ids=["memory", "processes"])
async def test_nothing_is_started_ahead_where_it_would_count_against_a_limit(
    hub: FakeExecutorHub, executors: ExecutorProcesses, limits: JobLimits
) -> None:
    gate = Gate(executors.folder)
    source = module(executors.folder / "source", main=gated_plan(gate))
    executor = await executors.run(executors.spec(JobType.PLAN, source, limits=limits))
    await gate.reached()
    await asyncio.sleep(0.2)
    assert _commands(executor) == ["plan"]
    await gate.open()
    assert await executor.exit_code() == 0, executor.said


async def test_nothing_is_started_ahead_without_isolation(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    executor, gate = await _planning(hub, executors, isolation=IsolationSettings("none"))
    await asyncio.sleep(0.2)
    assert _commands(executor) == ["plan"]
    await gate.open()
    assert await executor.exit_code() == 0, executor.said


async def test_a_hook_before_the_plan_still_runs_before_it(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """The hook writes a file that the plan reads. With such a hook, no plan is started ahead."""
    hook = hook_before(Step.PLAN, "#!/bin/sh\necho 'output \"made\" { value = 7 }' > made.tf\n")
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.PLAN, source, hooks=[hook]))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED"
    assert b"+ made" in hub.log().replace(b"\x1b[32m", b"").replace(b"\x1b[0m", b"")
