"""A PLAN job keeps a plan with changes, and another job applies it at the same path, with the real engine."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from terracrew.protocol.events import OutputsRead, PlanSummary, Result, Stream
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import JobType, StateSeed
from terracrew.source_rules import archive
from terracrew.testing.executor_processes import ExecutorProcesses
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import statuses
from tests.executor.saved_plan.waiting_plans import SECOND, another_instance, resume_of, spec_of

pytestmark = [pytest.mark.engine, pytest.mark.feature("J8.plan-first")]


async def run_plan(executors: ExecutorProcesses, source: bytes, **changes: Any) -> Result:
    spec = msgspec.structs.replace(spec_of(executors, source, **changes), type=JobType.PLAN)
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    return executors.hub.result


async def applied(tmp_path: Path, source: bytes) -> StateSeed:
    """Apply the source elsewhere, and return the state that this leaves."""
    async with another_instance(tmp_path / "earlier") as at:
        at.hub.needs_approval = False
        executor = await at.run(spec_of(at, source))
        assert await executor.exit_code() == 0, executor.said
        content = at.hub.states[-1][2]
    return StateSeed(4, size=len(content), content=content)


@pytest.mark.parametrize("is_destroy", [False, True])
async def test_a_kept_plan_of_a_plan_job_is_applied_by_another_job(
    hub: FakeExecutorHub,
    executors: ExecutorProcesses,
    second: ExecutorProcesses,
    source: bytes,
    tmp_path: Path,
    is_destroy: bool,
) -> None:
    state = StateSeed(0)
    if is_destroy:
        state = await applied(tmp_path, source)
    result = await run_plan(executors, source, state=state, is_destroy_plan=is_destroy, job_id="job_7")
    assert (result.status, result.kept is not None) == ("SUCCEEDED", True)
    assert b"terracrew job apply" in hub.log(Stream.SYSTEM)
    again, second.hub.plan = second.hub, hub.plan
    resume = resume_of(hub, attempt=0, made_job_id="job_7")
    kind = JobType.DESTROY if is_destroy else JobType.APPLY
    spec = msgspec.structs.replace(spec_of(second, source, resume=resume, state=state, job_id="job_8"), type=kind)
    executor = await second.run(spec, granted=Granted(spec, SECOND))
    assert await executor.exit_code() == 0, executor.said
    assert again.result.status == "SUCCEEDED", again.result
    assert again.plan_attempts == [0]
    assert again.facts_of(PlanSummary) == [], "it was not planned again"
    assert "plan SKIPPED" in statuses(again)
    if not is_destroy:
        [outputs] = again.facts_of(OutputsRead)
        assert outputs.outputs["here"].value == f"{executors.workspaces}/job_7.1/infra hello from a file"
    assert b"Going on with the plan that an earlier job made" in again.log(Stream.SYSTEM)


async def test_a_plan_that_changes_nothing_is_not_kept(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    folder = tmp_path / "small" / "infra"
    folder.mkdir(parents=True)
    (folder / "main.tf").write_text('variable "name" {}\nresource "terraform_data" "one" { input = var.name }\n')
    small = archive.pack(folder.parent)
    result = await run_plan(executors, small, state=await applied(tmp_path, small))
    assert (result.status, result.kept, hub.plan_puts) == ("SUCCEEDED", None, 0)


async def test_a_plan_job_succeeds_although_its_plan_cannot_be_stored(
    hub: FakeExecutorHub, executors: ExecutorProcesses, source: bytes
) -> None:
    hub.refuse_plan = lambda: 413
    result = await run_plan(executors, source)
    assert (result.status, result.kept) == ("SUCCEEDED", None)
    assert b"This plan cannot be applied later, because it could not be saved" in hub.log(Stream.SYSTEM)


async def test_a_plan_is_not_restored_in_the_workspace_of_a_third_job(
    hub: FakeExecutorHub, executors: ExecutorProcesses, second: ExecutorProcesses, source: bytes
) -> None:
    await run_plan(executors, source, job_id="job_7")
    second.hub.plan = hub.plan
    resume = resume_of(hub, attempt=0, made_job_id="job_6")
    spec = spec_of(second, source, resume=resume, job_id="job_8")
    executor = await second.run(spec, granted=Granted(spec, SECOND))
    assert await executor.exit_code() == 0, executor.said
    assert second.hub.result.status == "WAITING", "it has planned again"
    assert b"which is not a workspace of this runner" in second.hub.log(Stream.SYSTEM)
