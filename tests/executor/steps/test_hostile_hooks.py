"""Hooks that misbehave, and modules that try to run something else in the name of an approved hook. The real OpenTofu runs."""

from pathlib import Path

import pytest

from terracrew.errors import Invalid, NotFound
from terracrew.executor.steps import hooks as step_hooks
from terracrew.protocol.spec import ApprovedHooks, Hook, JobType, Step, StepHook
from terracrew.protocol.start import IsolationSettings
from terracrew.testing.executor_processes import ExecutorProcesses, module
from terracrew.testing.fake_executor_hub import FakeExecutorHub

MAIN = 'output "it" { value = "made" }\n'
PRINTED_BYTES = 48 << 20
MAX_GROWTH_KB = 64 << 10
MEMORY = "#!/bin/sh\ngrep VmHWM /proc/$PPID/status | tr -s '\\t ' ' '\n"
FLOOD = f"#!/bin/sh\nhead -c {PRINTED_BYTES} /dev/zero | tr '\\0' x\n"


def hook(script: str, when: str = "before", step: Step = Step.INIT) -> StepHook:
    return StepHook(step, "before" if when == "before" else "after", Hook(script), "acme")


@pytest.mark.engine
@pytest.mark.feature("H1.scripts", "L3.complete")
async def test_a_hook_that_prints_without_end_loses_nothing_and_does_not_fill_the_memory(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    """One line of 48 MB; the executor holds a small part of it at a time, so a gigabyte is the same to it."""
    source = module(executors.folder / "source", main=MAIN)
    hooks = [hook(MEMORY), hook(FLOOD), hook(MEMORY, "after")]
    executor = await executors.run(
        executors.spec(JobType.PLAN, source, hooks=hooks), isolation=IsolationSettings("none")
    )
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    log = hub.log()
    assert log.count(b"x" * 1000) == PRINTED_BYTES // 1000
    before, after = (int(line.split()[1]) for line in log.split(b"\n") if line.startswith(b"VmHWM"))
    assert after - before < MAX_GROWTH_KB


@pytest.mark.engine
@pytest.mark.feature("H2.approved")
async def test_a_module_cannot_make_an_approved_hook_run_something_else(
    hub: FakeExecutorHub, executors: ExecutorProcesses, tmp_path: Path
) -> None:
    """With PATH, BASH_ENV or LD_PRELOAD in its environment, a module ran its own programs inside an approved hook."""
    folder = executors.folder / "source"
    folder.mkdir()
    for name in ("true", "cat"):
        (folder / name).write_text("#!/bin/sh\necho FORGED\n")
        (folder / name).chmod(0o755)
    (folder / "startup").write_text("echo FORGED\n")
    script, command = Hook("#!/bin/bash\necho plain; true; cat /dev/null\n"), Hook(command=["cat", "/dev/null"])
    hooks = [StepHook(Step.INIT, "before", each, "acme") for each in (script, command)]
    forged = {"PATH": ".", "BASH_ENV": "startup", "ENV": "startup", "LD_PRELOAD": "./nothing.so"}
    source = module(folder, main=MAIN)
    spec = executors.spec(JobType.PLAN, source, hooks=hooks, environment=forged)
    approved = ApprovedHooks(str(tmp_path), [script.sha256, command.sha256])
    executor = await executors.run(spec, approved_hooks=approved)
    assert await executor.exit_code() == 0, executor.said
    assert b"plain" in hub.log()
    assert b"FORGED" not in hub.log()
    assert b"nothing.so" not in hub.log().partition(b"Initializing")[0], "the loader was not asked for it"


@pytest.mark.engine
@pytest.mark.feature("H1.scripts")
async def test_a_link_in_place_of_the_script_is_not_followed(
    hub: FakeExecutorHub, executors: ExecutorProcesses
) -> None:
    witness = executors.folder / "witness"
    witness.write_text("untouched")
    hooks = [hook(f'#!/bin/sh\nln -sf {witness} "$0"\n'), hook("#!/bin/sh\necho second\n")]
    spec = executors.spec(JobType.PLAN, module(executors.folder / "source", main=MAIN), hooks=hooks)
    executor = await executors.run(spec, isolation=IsolationSettings("none"))
    assert await executor.exit_code() == 0, executor.said
    assert hub.result.status == "SUCCEEDED", hub.result
    assert b"second" in hub.log()
    assert witness.read_text() == "untouched"


@pytest.mark.feature("H1.scripts")
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("#!/bin/sh", ["/bin/sh"]),
        ("#! /bin/sh -e ", ["/bin/sh", "-e"]),
        ("#!/usr/bin/env python3", ["/usr/bin/env", "python3"]),
        ("#!/bin/sh -c 'echo $(id)'", ["/bin/sh", "-c 'echo $(id)'"]),
        ("#!/usr/bin/env -S sh -e", ["/usr/bin/env", "-S sh -e"]),
    ],
)
def test_the_interpreter_is_read_as_the_kernel_reads_it(line: str, words: list[str]) -> None:
    assert step_hooks.interpreter(f"{line}\necho hello\n") == words


@pytest.mark.feature("H1.scripts")
@pytest.mark.parametrize(
    "script", ["", "#!", "#!   \n", "#!sh\n", "#!./sh\n", "#!../bin/sh\n", " #!/bin/sh\n", "\n#!/bin/sh\n"]
)
def test_a_script_without_an_absolute_interpreter_is_refused(script: str) -> None:
    with pytest.raises(Invalid, match="names its interpreter by an absolute path"):
        step_hooks.interpreter(script)


@pytest.mark.feature("H2.approved")
def test_an_approved_command_is_what_the_runner_finds() -> None:
    runner = {"PATH": "/usr/bin:/bin"}
    assert step_hooks.approved_command(Hook(command=["cat", "-"]), runner) in (
        ["/usr/bin/cat", "-"],
        ["/bin/cat", "-"],
    )
    assert step_hooks.approved_command(Hook(command=["./check"]), runner) == ["./check"]
    with pytest.raises(NotFound, match="no program 'nowhere-to-be-found' on its PATH"):
        step_hooks.approved_command(Hook(command=["nowhere-to-be-found"]), runner)
