"""The plan that was described is the plan that is applied: a hook tries to put another one in its place. The real OpenTofu runs."""

from pathlib import Path

import pytest

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Conflict, Invalid, TooLarge
from terracrew.executor.engines import plan_file
from terracrew.executor.isolation import landlock
from terracrew.protocol.events import OutputsRead, PlanSummary, StepStatus
from terracrew.protocol.spec import Hook, JobType, Step, StepHook
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, ended

REPLACE = """#!/bin/sh
place=$(dirname "$0")
sed -i s/made/EVIL/ main.tf
{tofu} plan -input=false -out=evil.plan
for file in "$place/../produced/plan" "$place/plan"; do
  cat evil.plan > "$file" || ln -f evil.plan "$file" || mv -f evil.plan "$file"
done
cmp evil.plan "$place/plan" && echo REPLACED
exit 0
"""


def _hook(tofu: str, step: Step, when: str) -> StepHook:
    return StepHook(step, "before" if when == "before" else "after", Hook(REPLACE.format(tofu=tofu)), "acme")


AROUND = [(Step.PLAN, "after"), (Step.APPLY, "before")]


@pytest.mark.engine
@pytest.mark.feature("J8.same", "H1.scripts")
@pytest.mark.skipif(landlock.abi() < 1, reason="this kernel has no Landlock")
@pytest.mark.parametrize(("step", "when"), AROUND)
async def test_a_hook_cannot_replace_the_plan_that_was_described(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str, step: Step, when: str
) -> None:
    """The approver saw `made`, and `EVIL` was applied."""
    source = module(executors.folder / "source", main=SMALL_MODULE)
    spec = executors.spec(JobType.APPLY, source, hooks=[_hook(tofu, step, when)])
    executor = await executors.run(spec, isolation=IsolationSettings())
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert b"EVIL" in hub.log(), "the hook made another plan"
    assert b"REPLACED" not in hub.log()
    [outputs] = hub.facts_of(OutputsRead)
    assert outputs.outputs["it"].value == "made"


@pytest.mark.engine
@pytest.mark.feature("J8.same", "H1.scripts")
@pytest.mark.parametrize(("step", "when"), AROUND)
async def test_a_plan_that_was_replaced_where_engines_are_not_isolated_is_not_applied(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str, step: Step, when: str
) -> None:
    source = module(executors.folder / "source", main=SMALL_MODULE)
    spec = executors.spec(JobType.APPLY, source, hooks=[_hook(tofu, step, when)])
    executor = await executors.run(spec, isolation=IsolationSettings("none"))
    assert await executor.exit_code() == 0, executor.said
    assert b"REPLACED" in hub.log()
    assert hub.result.status == "FAILED"
    assert "apply failed: the plan was changed after it was described, so it is not applied" in hub.result.message
    assert ended(hub) == StepStatus(Step.APPLY, "FAILED", is_cut_short=False)
    assert hub.states == []


@pytest.mark.engine
@pytest.mark.feature("J8.same")
async def test_a_plan_that_was_replaced_is_not_saved_for_an_approval(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tofu: str
) -> None:
    hub.needs_approval = True
    source = module(executors.folder / "source", main=SMALL_MODULE)
    spec = executors.spec(JobType.APPLY, source, hooks=[_hook(tofu, Step.PLAN, "after")])
    executor = await executors.run(spec, isolation=IsolationSettings("none"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert "the plan was changed after it was described" in hub.result.message
    assert hub.facts_of(PlanSummary)[0].add == 1
    assert hub.plan == b"", "nothing was uploaded"


@pytest.fixture
def files(tmp_path: Path) -> EngineDirectory:
    made = EngineDirectory(tmp_path / "engine-files")
    made.make()
    return made


@pytest.mark.feature("J8.same")
def test_a_process_that_has_opened_the_new_plan_before_cannot_change_the_one_that_was_taken(
    files: EngineDirectory,
) -> None:
    with files.new_plan.open("wb", buffering=0) as still_open:
        still_open.write(b"described")
        sha256 = plan_file.take(files)
        still_open.write(b" and more")
    assert files.plan.read_bytes() == b"described"
    plan_file.check(files.plan, sha256)
    assert not files.new_plan.exists()
    files.plan.write_bytes(b"another")
    with pytest.raises(Conflict, match="changed after it was described"):
        plan_file.check(files.plan, sha256)


@pytest.mark.feature("J8.same")
def test_what_is_not_a_plan_of_its_own_is_not_taken(files: EngineDirectory, tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="cannot be read"):
        plan_file.take(files)
    (tmp_path / "token").write_text("secret")
    files.new_plan.symlink_to(tmp_path / "token")
    with pytest.raises(Invalid, match="cannot be read"):
        plan_file.take(files)
    files.new_plan.unlink()
    with files.new_plan.open("wb") as sparse:
        sparse.truncate(plan_file.MAX_PLAN_BYTES + 1)
    with pytest.raises(TooLarge):
        plan_file.take(files)
