"""The options of a plan, as the real OpenTofu obeys them: they come as flags of the plan."""

import json

import pytest

from terracrew.api.plan_options import PlanOptions
from terracrew.protocol.events import PlanSummary
from terracrew.protocol.spec import JobType, StateSeed, Step
from terracrew.server.jobs import plan_options
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

pytestmark = [pytest.mark.engine, pytest.mark.feature("J7.options")]

TWO = """
resource "terraform_data" "each" {
  for_each = toset(["a b", "c"])
  input    = each.key
}
resource "terraform_data" "other" { input = "other" }
output "other" { value = "told" }
"""


async def applied(
    hub: FakeExecutorHub, executors: ExecutorProcesses, options: PlanOptions, state: bytes = b""
) -> bytes:
    """Run an APPLY with these options, and return the last state that it wrote."""
    source = module(executors.folder / "source", main=TWO)
    seed = StateSeed(1, size=len(state), content=state) if state else StateSeed(0)
    flags = {Step.PLAN: plan_options.flags(options)}
    spec = executors.spec(JobType.APPLY, source, flags=flags, is_refresh_only=options.is_refresh_only, state=seed)
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    return hub.states[-1][2]


def addresses(state: bytes) -> list[str]:
    return [
        f"{each['name']} {one.get('index_key', '')}".strip()
        for each in json.loads(state)["resources"]
        for one in each["instances"]
    ]


async def test_only_the_targets_are_applied(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    state = await applied(hub, executors, PlanOptions(targets=['terraform_data.each["a b"]'], refresh=False))
    assert addresses(state) == ["each a b"]
    [summary] = hub.facts_of(PlanSummary)
    assert summary.add == 1


async def test_a_resource_is_replaced_because_the_job_asks_for_it(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    before = STATE.encode()
    options = PlanOptions(targets=["terraform_data.other"], replace=["terraform_data.other"])
    state = await applied(hub, executors, options, before)
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.replace, summary.add) == (1, 0)
    [found] = json.loads(state)["resources"]
    assert found["instances"][0]["attributes"]["id"] != "1"


async def test_a_refresh_only_apply_changes_the_state_and_no_resource(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    state = await applied(hub, executors, PlanOptions(is_refresh_only=True), STATE.encode())
    assert addresses(state) == ["other"]
    assert json.loads(state)["outputs"]["other"]["value"] == "told"
    [summary] = hub.facts_of(PlanSummary)
    assert (summary.add, summary.change, summary.destroy) == (0, 0, 0)


STATE = json.dumps(
    {
        "version": 4,
        "terraform_version": "1.12.6",
        "serial": 1,
        "lineage": "l",
        "outputs": {},
        "resources": [
            {
                "mode": "managed",
                "type": "terraform_data",
                "name": "other",
                "provider": 'provider["terraform.io/builtin/terraform"]',
                "instances": [
                    {
                        "schema_version": 0,
                        "attributes": {
                            "id": "1",
                            "input": {"value": "other", "type": "string"},
                            "output": {"value": "other", "type": "string"},
                            "triggers_replace": None,
                        },
                    }
                ],
            }
        ],
    }
)
