"""Hooks after `plan` and before `apply` read the plan. The real OpenTofu runs."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from terracrew.protocol.events import PlanSummary
from terracrew.protocol.messages import CancelAttempt, Granted
from terracrew.protocol.spec import Hook, JobType, StateSeed, Step, StepHook, When
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import SMALL_MODULE, statuses, wrapped
from tests.executor.saved_plan.waiting_plans import SECOND, another_instance, resume_of

pytestmark = [pytest.mark.engine, pytest.mark.feature("H1.plan")]

SECRET, PLAIN = "correct horse battery", "what everybody may read"
SENSITIVE = """
variable "given" { sensitive = true }
variable "ordinary" {}
resource "terraform_data" "it" {
  input = { hidden = var.given, shown = "PLAIN", other = var.ordinary }
}
output "given" {
  value     = var.given
  sensitive = true
}
""".replace("PLAIN", PLAIN)
COPY = """#!/bin/sh
name=$TERRACREW_HOOK-$TERRACREW_STEP
stat -c %a "$TERRACREW_PLAN_JSON" "$TERRACREW_PLAN_FILE" > FOLDER/$name.modes
cp "$TERRACREW_PLAN_JSON" FOLDER/$name.json
cp "$TERRACREW_PLAN_FILE" FOLDER/$name.plan
"""
NO_DESTROY = """#!/usr/bin/python3
import json, os, sys
with open(os.environ["TERRACREW_PLAN_JSON"]) as file:
    changes = json.load(file)["resource_changes"]
destroyed = [each["address"] for each in changes if "delete" in each["change"]["actions"]]
if destroyed:
    sys.exit("HOOK this plan destroys " + ", ".join(destroyed))
print("HOOK nothing is destroyed")
"""
VARIABLES = """#!/bin/sh
echo "HOOK $TERRACREW_HOOK $TERRACREW_STEP [${TERRACREW_PLAN_FILE-none}] [${TERRACREW_PLAN_JSON-none}]"
echo "HOOK files: $(ls "$(dirname "$0")" | grep plan | tr '\\n' ' ')"
"""


def hook(step: Step, when: When, script: str, place: str = "acme") -> StepHook:
    return StepHook(step, when, Hook(script), place)


def copying(folder: Path, *places: tuple[Step, When]) -> list[StepHook]:
    """Hooks that copy what they are given into a folder."""
    return [hook(step, when, COPY.replace("FOLDER", str(folder))) for step, when in places]


def said(hub: FakeExecutorHub) -> list[str]:
    return [line for line in hub.log().decode().splitlines() if line.startswith("HOOK")]


async def run(executors: ExecutorProcesses, kind: JobType, main: str = SMALL_MODULE, **changes: Any) -> None:
    start = {name: changes.pop(name) for name in ("isolation", "engine_paths") if name in changes}
    executor = await executors.run(
        executors.spec(kind, module(executors.folder / "source", main=main), **changes), **start
    )
    assert await executor.exit_code() == 0, executor.said


@pytest.mark.parametrize("kind", [JobType.APPLY, JobType.DESTROY])
async def test_a_hook_refuses_a_plan_that_destroys_and_nothing_is_changed(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path, kind: JobType
) -> None:
    check = hook(Step.PLAN, "after", NO_DESTROY)
    async with another_instance(tmp_path / "earlier") as at:
        at.hub.needs_approval = False
        await run(at, JobType.APPLY, hooks=[check])
        assert at.hub.result.status == "SUCCEEDED", at.hub.log()
        assert said(at.hub) == ["HOOK nothing is destroyed"]
        content = at.hub.states[-1][2]
    main = SMALL_MODULE.replace('"made"', '"new"').replace('"it"', '"other"').replace(".it", ".other")
    await run(executors, kind, main, hooks=[check], state=StateSeed(4, size=len(content), content=content))
    assert said(hub) == ["HOOK this plan destroys terraform_data.it"]
    assert hub.result.message == "plan failed: the hook after plan of `acme` ended with exit code 1"
    assert (hub.begins, hub.states) == ([], []), "no permission was asked for"
    assert f"{kind.lower()} SKIPPED" in statuses(hub)


async def test_hooks_read_the_plan_without_sensitive_values_and_secrets_after_plan_and_before_apply(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    hooks = copying(tmp_path, (Step.PLAN, "after"), (Step.APPLY, "before"))
    inputs, isolation = {"given": SECRET, "ordinary": "of-the-server"}, IsolationSettings(write_paths=[str(tmp_path)])
    secrets = ["of-the-server"]
    await run(executors, JobType.APPLY, SENSITIVE, hooks=hooks, inputs=inputs, secrets=secrets, isolation=isolation)
    assert hub.result.status == "SUCCEEDED", hub.log()
    for name in ("after-plan", "before-apply"):
        assert (tmp_path / f"{name}.modes").read_text().split() == ["600", "600"]
        text = (tmp_path / f"{name}.json").read_text()
        assert SECRET not in text
        assert "of-the-server" not in text
        plan = json.loads(text)
        [change] = plan["resource_changes"]
        assert change["change"]["actions"] == ["create"]
        assert change["change"]["after"]["input"] == {"hidden": "***", "shown": PLAIN, "other": "***"}
        assert plan["variables"] == {"given": {"value": "***"}, "ordinary": {"value": "***"}}
        assert plan["planned_values"]["outputs"]["given"]["value"] == "***"
    plan, later = ((tmp_path / f"{name}.plan").read_bytes() for name in ("after-plan", "before-apply"))
    assert plan.startswith(b"PK"), "it is the file that the engine has made"
    assert plan == later


@pytest.mark.parametrize("is_plan_job", [False, True])
async def test_the_hook_before_apply_of_a_later_attempt_or_job_reads_the_plan_that_was_approved(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path, tofu: str, is_plan_job: bool
) -> None:
    """The plan is not described a second time: `show` of a configuration with large providers takes seconds."""
    first, second = tmp_path / "first-copies", tmp_path / "second-copies"
    for folder in (first, second):
        folder.mkdir()
    hooks = copying(first, (Step.PLAN, "after")) + copying(second, (Step.APPLY, "before"))
    program = wrapped(executors, tofu, 'echo "ENGINE $1" >&2')
    isolation, inputs = IsolationSettings(write_paths=[str(tmp_path)]), {"given": SECRET, "ordinary": "a"}
    hub.needs_approval = True
    kind = JobType.PLAN if is_plan_job else JobType.APPLY
    options: dict[str, Any] = {"hooks": hooks, "inputs": inputs, "isolation": isolation, "engine_paths": [program]}
    await run(executors, kind, SENSITIVE, **options)
    assert hub.result.kept is not None, hub.result
    assert not (executors.engine_directory / "provided" / "plan.json").exists(), "it is saved with the plan"
    async with another_instance(tmp_path / "second", SECOND.hub) as at:
        at.workspaces, at.hub.plan, at.hub.needs_approval = executors.workspaces, hub.plan, False
        resume = resume_of(hub, attempt=0, made_attempt=1) if is_plan_job else resume_of(hub)
        job = {"job_id": "job_2", "attempt": 1} if is_plan_job else {"attempt": 2}
        source = module(executors.folder / "source", main=SENSITIVE)
        spec = at.spec(JobType.APPLY, source, hooks=hooks, inputs=inputs, resume=resume, **job)
        executor = await at.run(spec, granted=Granted(spec, SECOND), isolation=isolation, engine_paths=[program])
        assert await executor.exit_code() == 0, executor.said
        assert at.hub.result.status == "SUCCEEDED", (at.hub.result, at.hub.log())
        assert at.hub.facts_of(PlanSummary) == []
        assert b"ENGINE show" not in at.hub.log()
    seen = (second / "before-apply.json").read_bytes()
    assert seen == (first / "after-plan.json").read_bytes()
    assert SECRET.encode() not in seen
    assert hashlib.sha256((second / "before-apply.plan").read_bytes()).hexdigest() == resume.plan_sha256


async def test_other_hooks_are_given_no_plan_and_a_job_without_such_hooks_makes_no_json(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    places: list[tuple[Step, When]] = [(Step.PLAN, "before"), (Step.APPLY, "after")]
    await run(executors, JobType.APPLY, hooks=[hook(step, when, VARIABLES) for step, when in places])
    assert said(hub) == [
        "HOOK before plan [none] [none]",
        "HOOK files: ",
        "HOOK after apply [none] [none]",
        "HOOK files: plan ",
    ]


async def test_a_hook_after_a_plan_that_failed_is_given_no_plan(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    wrong = 'resource "terraform_data" "it" { input = file("missing") }\n'
    await run(executors, JobType.PLAN, wrong, hooks=[hook(Step.PLAN, "after", VARIABLES)])
    assert said(hub) == ["HOOK after plan [none] [none]", "HOOK files: "]


async def test_a_hook_does_not_run_with_a_json_that_another_one_has_replaced(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """Nothing is read-only where engines are not isolated. A module must not show another plan to the hook of its group."""
    replace = hook(Step.PLAN, "after", '#!/bin/sh\necho "{}" > "$TERRACREW_PLAN_JSON"\n', "acme/web")
    await run(
        executors,
        JobType.PLAN,
        hooks=[replace, hook(Step.PLAN, "after", NO_DESTROY)],
        isolation=IsolationSettings("none"),
    )
    assert "plan failed: the plan was changed after it was described" in hub.result.message
    assert said(hub) == []


async def test_a_check_that_was_interrupted_and_ends_with_exit_code_0_has_not_passed(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """A PLAN, and with it the check of a pull request, succeeded although its policy check was cut short."""
    polite = "#!/bin/sh\ntrap 'exit 0' INT\necho HOOK waits\nsleep 100 &\nwait\n"
    source = module(executors.folder / "source", main=SMALL_MODULE)
    executor = await executors.run(executors.spec(JobType.PLAN, source, hooks=[hook(Step.PLAN, "after", polite)]))
    await hub.until(lambda: said(hub) != [])
    await hub.tell(CancelAttempt("job_1", 1, "interrupt"))
    assert await executor.exit_code() == 0, executor.said
    assert (hub.result.status, hub.result.message) == ("CANCELED", "canceled during plan")
