"""Makes hooks and flags of the custom workflows of Atlantis, and names the steps that nothing here corresponds to."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew.api.steps import NewStepSettings
from terracrew.cli.commands.importing.atlantis_files import AtlantisStage, AtlantisWorkflow, StepsGiven
from terracrew.engine_rules import flags, input_names
from terracrew.errors import Invalid
from terracrew.protocol.spec import Hook, Step

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_OF_ATLANTIS = re.compile(
    r"PLANFILE|SHOWFILE|POLICYCHECKFILE|DIR|COMMENT_ARGS|USER_NAME|ATLANTIS_\w+|(PULL|BASE|HEAD)_\w+|REPO_REL_DIR|WORKSPACE|PROJECT_NAME"
)
_STAGES: dict[str, tuple[Step, ...]] = {"plan": (Step.INIT, Step.PLAN), "apply": (Step.APPLY,)}
_IGNORED = ("show", "policy_check")


class WorkflowResult(msgspec.Struct, frozen=True):
    """What a workflow becomes."""

    steps: tuple[tuple[Step, NewStepSettings], ...] = ()
    environment: Mapping[str, str] = {}
    remarks: tuple[str, ...] = ()
    problem: str = ""
    """Why a project with this workflow cannot be run here; empty if it can."""


class _Stage:
    """The steps of one stage, as they are read."""

    def __init__(self, name: str, engine: str, values: Mapping[str, str]) -> None:
        self.name, self.engine, self.values = name, engine, values
        self.commands: list[str] = []
        self.before: dict[Step, list[str]] = {}
        self.after: dict[Step, list[str]] = {}
        self.flags: dict[Step, list[str]] = {}
        self.environment: dict[str, str] = {}
        self.seen: list[Step] = []
        self.remarks: list[str] = []

    def read(self, steps: StepsGiven) -> None:
        for each in steps:
            name, given = (each, None) if isinstance(each, str) else next(iter(each.items()), ("", None))
            if name in [step.value for step in _STAGES[self.name]]:
                self._engine_step(Step(name), given)
            elif name == "run":
                self._run(given)
            elif name == "env":
                self._set(given)
            elif name not in _IGNORED:
                self.remarks.append(f"its step `{name[:50]}` in {self.name} has nothing that corresponds to it")
        if self.seen and self.commands:
            self.after.setdefault(self.seen[-1], []).extend(self.commands)
            self.commands = []

    def _engine_step(self, step: Step, given: Any) -> None:
        if self.commands:
            self.before.setdefault(step, []).extend(self.commands)
            self.commands = []
        self.seen.append(step)
        arguments = given.get("extra_args") if isinstance(given, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if isinstance(arguments, list):
            for flag in _joined([str(each) for each in arguments]):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                self._flag(step, self._filled(flag))

    def _flag(self, step: Step, flag: str) -> None:
        try:
            if "$" in flag or "`" in flag:
                raise Invalid(f"`{flag[:80]}` needs a shell")
            flags.check(self.engine, step.value, [flag])
        except Invalid as error:
            self.remarks.append(f"its argument of {step.value} is left out: {error.message}")
            return
        self.flags.setdefault(step, []).append(flag)

    def _run(self, given: Any) -> None:
        command = given.get("command") if isinstance(given, dict) else given  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        if not isinstance(command, str) or not command.strip():
            self.remarks.append(f"a `run` in {self.name} has no command")
            return
        self.commands.append(command)
        used = {one or other for one, other in _VARIABLE.findall(command)}
        unknown = sorted(each for each in used if _OF_ATLANTIS.fullmatch(each) and each not in self.values)
        if unknown:
            self.remarks.append(
                f"its command `{command[:80]}` uses {', '.join(unknown)}, which only Atlantis sets: see docs/hooks.md for what hooks get"
            )

    def _set(self, given: Any) -> None:
        name = str(given.get("name") or "") if isinstance(given, dict) else ""  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        value: Any = given.get("value") if isinstance(given, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        problem = input_names.problem_of_environment(name)
        if isinstance(value, str) and not problem:
            self.environment[name] = self._filled(value)
        else:
            why = problem or "a command gives its value: let a hook write a file, or give the value as an input"
            self.remarks.append(f"its variable {name[:100]} of the environment is left out: {why}")

    def _filled(self, text: str) -> str:
        """Return a text with the values of Atlantis that do not change from run to run."""
        return _VARIABLE.sub(lambda found: self.values.get(found[1] or found[2], found[0]), text)


def convert(name: str, workflow: AtlantisWorkflow, engine: str, values: Mapping[str, str]) -> WorkflowResult:
    """Return what a workflow becomes for one project. `values` are the variables of Atlantis that are the same in every run."""
    merged: dict[Step, NewStepSettings] = {}
    environment: dict[str, str] = {}
    remarks: list[str] = []
    for stage_name, given in (("plan", workflow.plan), ("apply", workflow.apply)):
        if given is None or given.steps is None:
            continue
        stage = _Stage(stage_name, engine, values)
        stage.read(given.steps)
        if Step(stage_name) not in stage.seen:
            shown = stage.commands[0][:80] if stage.commands else "nothing"
            return WorkflowResult(
                problem=f"its workflow {name} runs `{shown}` in place of {stage_name} of the engine, which Terracrew runs itself"
            )
        remarks += stage.remarks
        environment |= stage.environment
        for step in dict.fromkeys(stage.seen):
            settings = NewStepSettings(
                before=_hook(stage.before.get(step), values),
                after=_hook(stage.after.get(step), values),
                flags={engine: stage.flags[step]} if step in stage.flags else {},
            )
            if settings != NewStepSettings():
                merged[step] = settings
    remarks += [
        f"its workflow {name} has the stage {each}, which nothing here corresponds to"
        for each, other in (
            ("policy_check", workflow.policy_check),
            ("import", workflow.import_),
            ("state_rm", workflow.state_rm),
        )
        if isinstance(other, AtlantisStage)
    ]
    return WorkflowResult(tuple(merged.items()), environment, tuple(remarks))


def _hook(commands: list[str] | None, values: Mapping[str, str]) -> Hook | None:
    if not commands:
        return None
    used = {one or other for command in commands for one, other in _VARIABLE.findall(command)}
    exports = [f"export {name}={shlex.quote(value)}" for name, value in sorted(values.items()) if name in used]
    return Hook(script="\n".join(["#!/bin/sh", "set -e", *exports, *commands, ""]))


def _joined(arguments: list[str]) -> list[str]:
    """Return one item for each flag. A value that stands on its own, as in `-var-file x`, is joined with its flag."""
    found: list[str] = []
    for each in arguments:
        if found and not each.startswith("-") and "=" not in found[-1]:
            found[-1] = f"{found[-1]}={each}"
        else:
            found.append(each)
    return found
