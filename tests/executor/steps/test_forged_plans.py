"""What a plan is said to do comes from the plan itself. Code of a module tries to say something else. The real OpenTofu runs."""

import pytest

from terracrew.protocol.events import OutputsRead, PlanSummary
from terracrew.protocol.spec import JobType
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, wrapped

pytestmark = [pytest.mark.engine, pytest.mark.feature("J8.same")]

FORGED_PLAN = '{"format_version":"1.2"}'
FORGED_OUTPUTS = '{"it":{"value":"EVIL","type":"string","sensitive":false}}'


@pytest.mark.parametrize(("command", "forged"), [("show", FORGED_PLAN), ("output", FORGED_OUTPUTS)])
async def test_a_program_below_the_engine_cannot_rewrite_what_the_engine_prints_for_the_executor(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str, command: str, forged: str
) -> None:
    """A provider opened /proc/PPID/fd/1, which was a file in memory, and put another description of the plan there."""
    rewriting = f"sh -c 'printf %s \"$0\" | dd of=/proc/$PPID/fd/1' '{forged}'"
    program = wrapped(
        executors, tofu, f'if [ "$1" = {command} ]; then {tofu} "$@"; code=$?; {rewriting}; exit $code; fi'
    )
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.APPLY, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert b"No such device or address" in hub.log(), "the program tried it"
    assert hub.facts_of(PlanSummary)[0].add == 1
    assert hub.facts_of(OutputsRead)[0].outputs["it"].value == "made"


async def test_a_long_description_of_a_plan_arrives_complete(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    """The engine waits until the executor has read what does not fit into the buffers of the kernel."""
    program = wrapped(executors, tofu, 'if [ "$1" = show ]; then head -c 150000000 /dev/zero | tr "\\0" " "; fi')
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.PLAN, source), engine_paths=[program])
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert hub.facts_of(PlanSummary)[0].add == 1
