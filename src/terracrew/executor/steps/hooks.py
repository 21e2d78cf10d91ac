"""Runs the hooks of a step. They have the working directory, the log and the isolation of the engine."""

import contextlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from terracrew.errors import Forbidden, Invalid, NotFound, TerracrewError
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.steps import hook_cost, hook_environment, hook_plan
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import Hook, Step, StepHook, When

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SCRIPT = "hook"


class HookFailedError(TerracrewError):
    """A hook did not succeed, so the job stops."""

    code = "hook_failed"


async def before(context: StepContext, step: Step) -> None:
    """Run the hooks before a step. Nothing of the step runs if one of its hooks is not approved, or if one of these fails."""
    wanted = _of(context, step)
    for each in wanted:
        _check_approved(context, each)
    first = [each for each in wanted if each.when == "before"]
    if first and not step.is_mutating:  # a mutating step got its tokens with its permission
        await context.cloud.enter(step.phase)
    for each in first:
        await _run(context, each)
    if (
        first and step.is_mutating
    ):  # the engine must start while the permission is valid, and a hook may take longer than that
        await context.obtain_permit()


async def after(context: StepContext, step: Step) -> None:
    """Run the hooks after a step that has succeeded."""
    for each in _of(context, step, "after"):
        await _run(context, each, "SUCCEEDED")


async def after_failure(context: StepContext, step: Step) -> None:
    """Run the hooks after a step that has failed, up to the first one that fails. A stopped job runs no more hooks."""
    with contextlib.suppress(HookFailedError):  # it is in the log, and the job ends with the failure of the step
        for each in _of(context, step, "after"):
            if context.control.is_stopping:
                return
            await _run(context, each, "FAILED")


def _of(context: StepContext, step: Step, when: When | None = None) -> list[StepHook]:
    return [each for each in context.spec.hooks if each.step == step and when in (None, each.when)]


def _check_approved(context: StepContext, wanted: StepHook) -> None:
    approved = context.start.approved_hooks
    if approved is None or wanted.hook.sha256 in approved.sha256:
        return
    searched = (
        f"no file in {approved.directory} has that content"
        if approved.directory
        else "the runner approves no hooks, because hooks_preapproval.preapproved_hooks_directory is not set"
    )
    raise Forbidden(f"{wanted} is not approved on this runner: its SHA-256 is {wanted.hook.sha256}, and {searched}")


async def _run(context: StepContext, wanted: StepHook, status: str = "") -> None:
    step, mutation = wanted.step, context.mutation
    context.recorder.say(f"Running {wanted} ({wanted.hook.sha256[:12]})")
    arguments = _arguments(context, wanted)
    about = {"TERRACREW_STEP": str(step), "TERRACREW_HOOK": wanted.when, "TERRACREW_STEP_STATUS": status}
    if status != "FAILED":
        about |= hook_plan.variables(context, wanted) | hook_cost.variables(context, wanted)
    # A hook around a change may change resources itself: until it has ended by itself, the change counts as cut short.
    was_orderly = mutation.is_orderly or not mutation.is_started
    mutation.is_started, mutation.is_orderly = mutation.is_started or step.is_mutating, False
    try:
        process = EngineProcess(
            arguments,
            cwd=context.prepared.folder,
            env=hook_environment.of_hook(context, wanted) | about,
            output=context.output.descriptor,
            stop_delays=context.stop_delays,
            ruleset=context.isolation.ruleset(context.prepared.found.path, context.prepared.session),
        )
    except OSError as error:
        mutation.is_orderly = was_orderly
        raise HookFailedError(f"{wanted} could not be started: {error.strerror}: {error.filename}") from error
    code = await context.wait_for(process, step)
    mutation.is_orderly = was_orderly and code >= 0
    await context.output.drain()
    if code:
        ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        raise HookFailedError(f"{wanted} {ended}")
    if step.phase == "plan" and context.control.stop_mode(is_mutating=False) is not None:
        # A script that ends itself with exit code 0 when it is interrupted has checked nothing.
        raise HookFailedError(f"{wanted} was interrupted")
    if status != "FAILED":
        try:
            await hook_cost.record(context, wanted)
        except Invalid as error:
            raise HookFailedError(error.message) from error


def _arguments(context: StepContext, wanted: StepHook) -> Sequence[str]:
    """Return the command of a hook. It must be what `Hook.sha256` is the hash of: of a hook with both, the script runs."""
    if wanted.hook.script:
        return write_script(context.files.provided, wanted.hook)
    if context.start.approved_hooks is None:
        return wanted.hook.command
    return approved_command(wanted.hook, context.start.environment)


def write_script(folder: Path, hook: Hook) -> list[str]:
    """Write the script of a hook into a new file, and return its command. An interpreter reads the file: the folder may forbid
    execution. What was there before is removed first, because a module may have put a link in its place."""
    path = folder / _SCRIPT
    path.unlink(missing_ok=True)
    with open(os.open(path, _NEW_FILE, 0o600), "w", newline="") as file:
        file.write(hook.text)
    return [*interpreter(hook.text), str(path)]


def interpreter(script: str) -> list[str]:
    """Return the interpreter of a script and its one argument, as the kernel reads them from the first line."""
    line = script.partition("\n")[0]
    words = line.removeprefix("#!").strip().split(None, 1)
    if not line.startswith("#!") or not words or not Path(words[0]).is_absolute():
        raise Invalid(
            "a script of a hook begins with a line such as `#!/bin/sh`, which names its interpreter by an absolute path"
        )
    return words


def approved_command(hook: Hook, runner: Mapping[str, str]) -> list[str]:
    """Return an approved command with its program as the runner finds it: an input could set another PATH."""
    program = hook.command[0]
    if "/" in program:
        return hook.command
    found = shutil.which(program, path=runner.get("PATH"))
    if found is None:
        raise NotFound(f"the runner has no program {program!r} on its PATH")
    return [found, *hook.command[1:]]
