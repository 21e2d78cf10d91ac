"""A hook after the plan says what it costs: the program of docs/policies.md with the real OpenTofu, and files that are no cost."""

import re
from pathlib import Path

import pytest

from terracrew.protocol.events import PlanCost, ResourceCost, Stream
from terracrew.protocol.spec import Hook, JobType, Step, StepHook
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE

pytestmark = [pytest.mark.engine, pytest.mark.feature("P3.cost")]
DOCS = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
PROGRAM = next(text for text in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "TERRACREW_COST_FILE" in text)


async def costs(hub: FakeExecutorHub, executors: ExecutorProcesses, script: str) -> list[PlanCost]:
    executors.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    hook = StepHook(Step.PLAN, "after", Hook(script), "acme")
    spec = executors.spec(JobType.PLAN, module(executors.folder / "source", main=SMALL_MODULE), hooks=[hook])
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.log()
    return [each for each in hub.facts if isinstance(each, PlanCost)]


async def test_the_documented_program_says_what_the_plan_costs(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    assert await costs(hub, executors, PROGRAM) == [
        PlanCost(0, 1.25, "USD", [ResourceCost("terraform_data.it", 0, 1.25)])
    ]


async def test_what_is_no_cost_is_told_in_the_log(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    script = """#!/bin/sh\nprintf '{"monthly_before": -1, "monthly_after": 1, "currency": "USD"}' > "$TERRACREW_COST_FILE" """
    assert await costs(hub, executors, script) == []
    assert b"has written cannot be read" in hub.log(Stream.SYSTEM)


async def test_a_link_to_another_file_is_no_cost(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    assert await costs(hub, executors, '#!/bin/sh\nln -s /etc/passwd "$TERRACREW_COST_FILE"') == []
    assert b"has written cannot be read" in hub.log(Stream.SYSTEM)
