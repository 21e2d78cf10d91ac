"""Hooks run before and after the steps of a job, with the engine's environment, log and isolation. The real OpenTofu runs."""

import os
import signal
from pathlib import Path

import pytest

from terracrew.protocol.events import OutputsRead, StepStatus
from terracrew.protocol.spec import ApprovedHooks, Hook, JobType, Step, StepHook
from terracrew.testing.executor_processes import ExecutorProcesses, Gate, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub
from tests.executor.engine_runs import statuses

pytestmark = pytest.mark.engine

MODULE = 'resource "terraform_data" "it" { input = "made" }\noutput "it" { value = terraform_data.it.output }\n'
REFUSED = """variable "number" { default = 1 }
resource "terraform_data" "it" {
  lifecycle {
    precondition {
      condition     = var.number > 2
      error_message = "never"
    }
  }
}
"""
SAY = '#!/bin/sh\necho "HOOK $TERRACREW_HOOK $TERRACREW_STEP [$TERRACREW_STEP_STATUS] $1 in $TERRACREW_GROUP_PATH"\nls *.tf\n'


def hook(step: Step, when: str, script: str = SAY, place: str = "acme", command: list[str] | None = None) -> StepHook:
    content = Hook(command=command) if command else Hook(script)
    return StepHook(step, "before" if when == "before" else "after", content, place)


async def run(
    executors: ExecutorProcesses,
    hooks: list[StepHook],
    kind: JobType = JobType.PLAN,
    main: str = MODULE,
    **start: object,
) -> None:
    spec = executors.spec(kind, module(executors.folder / "source", main=main), hooks=hooks)
    executor = await executors.run(spec, **start)
    assert await executor.exit_code() == 0, executor.said


def said(hub: FakeExecutorHub) -> list[str]:
    """The lines that hooks printed, in their order."""
    return [line for line in hub.log().decode().splitlines() if line.startswith("HOOK")]


@pytest.mark.feature("H1.scripts")
async def test_hooks_run_around_each_command_in_the_order_of_the_specification(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    steps = [Step.INIT, Step.VALIDATE, Step.PLAN, Step.APPLY, Step.OUTPUT]
    before = [hook(step, "before", command=["sh", "-c", f"echo HOOK outer {step}"], place="") for step in steps]
    inner = [hook(step, when) for step in steps for when in ("before", "after")]
    await run(executors, [*before, *inner], JobType.APPLY)
    assert hub.result.status == "SUCCEEDED", hub.log()
    expected: list[str] = []
    for step in steps:
        expected += [f"HOOK outer {step}", f"HOOK before {step} []  in acme", f"HOOK after {step} [SUCCEEDED]  in acme"]
    assert said(hub) == expected
    assert b"main.tf" in hub.log(), "a hook runs in the folder of the module"


@pytest.mark.feature("H1.scripts", "J3.order")
async def test_a_plan_reads_what_a_hook_before_it_has_written(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    write = "#!/bin/sh\necho 'output \"made\" { value = 7 }' > made.tf\n"
    await run(executors, [hook(Step.PLAN, "before", write)])
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert b"+ made" in hub.log(step="plan").replace(b"\x1b[32m", b"").replace(b"\x1b[0m", b"")


@pytest.mark.feature("H1.scripts", "J3.order")
async def test_hooks_of_output_run_after_a_destroy_too(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    """A DESTROY had no step `output`, so the hooks of this step never ran for it."""
    await run(executors, [hook(Step.OUTPUT, "before"), hook(Step.OUTPUT, "after")], JobType.DESTROY)
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert said(hub) == ["HOOK before output []  in acme", "HOOK after output [SUCCEEDED]  in acme"]


@pytest.mark.feature("H1.scripts")
async def test_a_hook_that_fails_before_a_step_stops_the_job_and_the_step_does_not_run(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    await run(executors, [hook(Step.PLAN, "before", "#!/bin/sh\nexit 3\n"), hook(Step.PLAN, "after")])
    assert hub.result.status == "FAILED"
    assert hub.result.message == "plan failed: the hook before plan of `acme` ended with exit code 3"
    assert "plan FAILED" in statuses(hub)
    assert b"terraform_data.it" not in hub.log(), "the engine made no plan"
    assert said(hub) == [], "the step did not run, so there is nothing after it"


@pytest.mark.feature("H1.scripts")
async def test_a_hook_after_a_step_is_told_that_the_step_failed(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    await run(executors, [hook(Step.PLAN, "after")], main=REFUSED)
    assert said(hub) == ["HOOK after plan [FAILED]  in acme"]
    assert hub.result.status == "FAILED"
    assert "never" in hub.log().decode()


@pytest.mark.feature("H1.scripts")
async def test_a_hook_that_fails_after_an_apply_stops_the_job_and_the_change_is_not_in_doubt(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    await run(executors, [hook(Step.APPLY, "after", "#!/bin/sh\nexit 1\n")], JobType.APPLY)
    assert hub.result.message == "apply failed: the hook after apply of `acme` ended with exit code 1"
    ended = [fact for fact in hub.facts_of(StepStatus) if fact.step == "apply"][-1]
    assert (ended.status, ended.is_cut_short) == ("FAILED", False)
    assert "output SKIPPED" in statuses(hub)


@pytest.mark.feature("H1.scripts")
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_hook_that_fails_around_output_fails_the_job_after_its_change(
    hub: FakeExecutorHub, executors: ExecutorProcesses, when: str
) -> None:
    """Such a job was SUCCEEDED: "applied, but its outputs are not kept", even if the hook ran after they were kept."""
    await run(executors, [hook(Step.OUTPUT, when, "#!/bin/sh\nexit 1\n")], JobType.APPLY)
    assert hub.result.status == "FAILED"
    ended = f"output failed: the hook {when} output of `acme` ended with exit code 1"
    assert hub.result.message == f"the change was made, but {ended}"
    assert [each for each in statuses(hub) if "RUNNING" not in each][-2:] == ["apply SUCCEEDED", "output FAILED"]
    assert bool(hub.facts_of(OutputsRead)) is (when == "after")


@pytest.mark.feature("H1.scripts")
async def test_a_hook_before_an_apply_runs_inside_the_permission_and_counts_as_a_change(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    gate = Gate(executors.folder)
    held = hook(Step.APPLY, "before", command=["cat", str(gate.path)])
    spec = executors.spec(JobType.APPLY, module(executors.folder / "source", main=MODULE), hooks=[held])
    executor = await executors.run(spec)
    await gate.reached()
    assert hub.begins, "the permission was given before the hook started"
    pid = next(
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and str(gate.path).encode() in _command_line(path).split(b"\0")
    )
    os.kill(pid, signal.SIGKILL)
    assert await executor.exit_code() == 0, executor.said
    ended = [fact for fact in hub.facts_of(StepStatus) if fact.step == "apply"][-1]
    assert (ended.status, ended.is_cut_short) == ("FAILED", True)
    assert hub.result.message == "apply failed: the hook before apply of `acme` was ended by signal 9"


def _command_line(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.feature("H2.approved")
async def test_a_hook_that_the_operator_has_approved_runs_whatever_its_line_endings(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    wanted = hook(Step.PLAN, "before", SAY.replace("\n", "\r\n"))
    await run(executors, [wanted], approved_hooks=ApprovedHooks("/etc/hooks", [Hook(SAY).sha256]))
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert said(hub) == ["HOOK before plan []  in acme"]


@pytest.mark.feature("H2.approved")
async def test_a_step_with_a_hook_that_is_not_approved_is_refused_and_nothing_of_it_runs(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    allowed, unknown = hook(Step.PLAN, "before"), hook(Step.PLAN, "after", "#!/bin/sh\necho HOOK unknown\n")
    await run(executors, [allowed, unknown], approved_hooks=ApprovedHooks("/etc/hooks", [allowed.hook.sha256]))
    assert said(hub) == [], "not even the approved hook runs"
    assert hub.result.message == (
        f"plan failed: the hook after plan of `acme` is not approved on this runner: its SHA-256 is {unknown.hook.sha256}, "
        "and no file in /etc/hooks has that content"
    )
    assert "init SUCCEEDED" in statuses(hub)


@pytest.mark.feature("H2.approved")
async def test_an_approved_script_does_not_let_a_command_beside_it_run(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    both = StepHook(Step.INIT, "before", Hook(SAY, command=["echo", "HOOK that nobody approved"]), "acme")
    await run(executors, [both], approved_hooks=ApprovedHooks("/etc/hooks", [both.hook.sha256]))
    assert [line.split()[1] for line in said(hub)] == ["before"], "only what was approved has run"


@pytest.mark.feature("H2.approved")
async def test_with_pre_approval_and_no_directory_every_hook_is_refused(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    await run(executors, [hook(Step.INIT, "before")], approved_hooks=ApprovedHooks(""))
    assert "preapproved_hooks_directory is not set" in hub.result.message
    assert said(hub) == []


@pytest.mark.feature("H1.scripts")
async def test_nothing_that_a_person_chooses_reaches_a_shell(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    witness = executors.folder / "witness"
    names = [f"$(touch {witness})", f"; touch {witness}", f"`touch {witness}`", "-rf", "--", "a\nb"]
    spec = executors.spec(
        JobType.PLAN,
        module(executors.folder / "source", main=MODULE),
        hooks=[hook(Step.PLAN, "before", command=["printf", "HOOK %s\\n", *names], place=names[0])],
        module_path=names[0],
        group_path=names[1],
        flags={Step.PLAN: [f"-var=x=$(touch {witness})"]},
    )
    executor = await executors.run(spec)
    assert await executor.exit_code() == 0, executor.said
    assert not witness.exists()
    assert f"HOOK $(touch {witness})" in said(hub)


@pytest.mark.feature("J7.flags")
async def test_flags_reach_the_engine_and_one_that_terracrew_decides_about_is_refused(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    source = module(executors.folder / "source", main='variable "x" {}\noutput "x" { value = var.x }\n')
    flags = {Step.PLAN: ["-var=x=from a flag", "-out=elsewhere"]}
    executor = await executors.run(executors.spec(JobType.PLAN, source, flags=flags))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.message.startswith("plan failed: `-out` cannot be added to plan of tofu")


@pytest.mark.feature("J7.flags")
@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("TF_CLI_ARGS_plan", "-compact-warnings -destroy", "`-destroy` cannot be added to plan"),
        ("TF_CLI_ARGS_plan", '-var=x=$(" ) -destroy ;"', "has the character $ outside of quotes"),
        ("TF_CLI_ARGS", "-lock=false", "`-lock` cannot be added to init"),
        ("TF_CLI_ARGS_init", "-backend-config=address=http://127.0.0.1:9/", "Terracrew keeps the state of this module"),
    ],
)
async def test_an_environment_variable_cannot_add_a_flag_that_terracrew_decides_about(
    hub: FakeExecutorHub, executors: ExecutorProcesses, name: str, text: str, words: str
) -> None:
    source = module(executors.folder / "source", main=MODULE)
    executor = await executors.run(executors.spec(JobType.APPLY, source, environment={name: text}))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "FAILED"
    assert f"environment: {name}" in hub.result.message
    assert words in hub.result.message
    assert "init RUNNING" not in statuses(hub)


@pytest.mark.feature("J7.flags")
async def test_an_engine_gets_the_flags_of_each_step(hub: FakeExecutorHub, executors: ExecutorProcesses) -> None:
    source = module(executors.folder / "source", main='variable "x" {}\noutput "x" { value = var.x }\n')
    flags = {Step.PLAN: ["-var=x=from a flag"], Step.APPLY: ["-parallelism=1"], Step.INIT: ["-upgrade"]}
    executor = await executors.run(executors.spec(JobType.APPLY, source, flags=flags))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.log()
    assert b"from a flag" in hub.log()
