"""Starts the engine of the next command while another command runs (ADR 0063): an engine takes longer to load than to make a small
plan. It waits at a gate and does nothing until its command may run; if something has changed by then, it is ended, and another one
is started.

Only an isolated engine is started ahead: the code of a module that runs in the meantime can neither open its gate nor change it.
An attempt with limits for memory or processes starts none, because two engines would count against them.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from terracrew.executor.engines import gate
from terracrew.executor.engines.contract import StartsAhead
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.steps.context import StepContext

_numbers = itertools.count(1)


class Command(NamedTuple):
    arguments: Sequence[str]
    stdout: int | None = None
    """Where its standard output goes, if not into the log."""


class StartedAhead(NamedTuple):
    command: Command
    env: Mapping[str, str]
    process: EngineProcess


def start(context: StepContext, command: Command) -> None:
    """Start a command that comes next, if that is possible. The environment that it has now must still be right then."""
    session, limits, env = context.session, context.spec.limits, environment(context)
    if not isinstance(session, StartsAhead) or limits.memory_mb or limits.processes:
        return
    if (ruleset := context.isolation.ruleset(context.found.path, session)) is None or _is_started(
        context, command, env
    ):
        return
    give_up(context)
    # An engine that was let go on may not have read its link yet, so each has its own.
    link = context.files.provided / f"first-file-{next(_numbers)}"
    if (closed := gate.make(link, session.first_file_variable, env)) is None:
        return
    process = EngineProcess(
        command.arguments,
        cwd=context.folder,
        env=env,
        output=context.output.descriptor,
        stdout=command.stdout,
        ladder=context.ladder,
        ruleset=ruleset,
        gate=closed,
    )
    context.ahead = StartedAhead(command, env, process)


def take(context: StepContext, command: Command) -> EngineProcess | None:
    """Let the engine go on that was started ahead for this command. Returns None if there is none, or if it is not right any more."""
    if not _is_started(context, command, environment(context)):
        give_up(context)
        return None
    assert context.ahead is not None
    process, context.ahead = context.ahead.process, None
    return process if process.go_on() else None


def give_up(context: StepContext) -> None:
    if context.ahead is not None:
        context.ahead.process.give_up()
        context.ahead = None


def environment(context: StepContext) -> dict[str, str]:
    """Return the environment of a command that starts now."""
    return context.env | context.cloud.environment()


def _is_started(context: StepContext, command: Command, env: Mapping[str, str]) -> bool:
    return context.ahead is not None and (context.ahead.command, context.ahead.env) == (command, env)
