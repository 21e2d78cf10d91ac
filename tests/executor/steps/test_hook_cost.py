"""A hook after the plan says what it costs: the program of docs/policies.md with the real OpenTofu, and files that are no cost."""

import contextlib
import re
from pathlib import Path

import msgspec
import pytest

from terracrew.protocol.events import PlanCost, ResourceCost
from terracrew.protocol.spec import Hook, JobType, Step, StepHook
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE

pytestmark = [pytest.mark.engine, pytest.mark.feature("P3.cost")]
DOCS = (Path(__file__).parents[3] / "docs" / "policies.md").read_text()
PROGRAM = next(text for text in re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL) if "TERRACREW_COST_FILE" in text)


async def run(executors: ExecutorProcesses, script: str) -> None:
    executors.environment["PATH"] = "/usr/local/bin:/usr/bin:/bin"
    hook = StepHook(Step.PLAN, "after", Hook(script), "acme")
    spec = executors.spec(JobType.PLAN, module(executors.folder / "source", main=SMALL_MODULE), hooks=[hook])
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said


def costs(hub: FakeExecutorHub) -> list[PlanCost]:
    return [each for each in hub.facts if isinstance(each, PlanCost)]


async def test_the_documented_program_says_what_the_plan_costs(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    await run(executors, PROGRAM)
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert costs(hub) == [PlanCost(0, 1.25, "USD", [ResourceCost("terraform_data.it", 0, 1.25)])]


@pytest.mark.parametrize(
    "script",
    [
        """printf '{"monthly_before": -1, "monthly_after": 1, "currency": "USD"}' > "$TERRACREW_COST_FILE" """,
        'ln -s /etc/passwd "$TERRACREW_COST_FILE"',
    ],
)
async def test_what_is_no_cost_fails_the_plan(hub: FakeExecutorHub, executors: ExecutorProcesses, script: str) -> None:
    """A plan was shown for approval as if no hook had been asked for its cost; only its log said that it could not be read."""
    await run(executors, f"#!/bin/sh\n{script}\n")
    assert costs(hub) == []
    assert (hub.result.status, hub.result.failure_kind) == ("FAILED", "hook")
    assert "the hook after plan of `acme` has written a cost that cannot be read: " in hub.result.message


@pytest.mark.parametrize(
    "change",
    [
        {"monthly_after": "NaN"},
        {"monthly_after": "Infinity"},
        {"monthly_after": "1e308"},
        {"monthly_after": "-0.01"},
        {"monthly_after": '"12"'},
        {"monthly_after": "true"},
        {"monthly_after": None},
        {"currency": '"usd"'},
        {"currency": '"USD\\n"'},
        {"currency": '["USD", "EUR"]'},
        {"currency": None},
        {"resources": '[{"monthly_after": 1}]'},
        {"resources": f"[{','.join(['{}'] * 1001)}]"},
        {"resources": "[" * 5_000},
    ],
)
def test_hostile_figures_are_no_cost(change: dict[str, str | None]) -> None:
    whole = {"monthly_before": "1", "monthly_after": "2", "currency": '"USD"'}
    decode = msgspec.json.Decoder(PlanCost).decode
    for given, is_read in ((whole, True), (whole | change, False)):
        text = ",".join(f'"{name}":{value}' for name, value in given.items() if value is not None)
        with contextlib.nullcontext() if is_read else pytest.raises((msgspec.MsgspecError, RecursionError)):
            assert decode(f"{{{text}}}").currency == "USD"
