"""Starts the engine of a later command while something else is done (ADR 0063): an engine takes longer to load than to make a small
plan. It waits at a gate and does nothing until its command may run; if something has changed by then, another one is started.

Only an isolated engine is started ahead: the code of a module that runs in the meantime can neither open its gate nor change it.
An attempt with limits for memory or processes starts none, because several engines would count against them.
"""

import itertools
import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from terracrew.executor.engines import gate
from terracrew.executor.engines.contract import DescribesPlans, StartsAhead, ValidatesInPlan
from terracrew.executor.engines.gate import Gate
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.isolation.landlock import Ruleset
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import STEPS_OF, Step
from terracrew.system import procfs

_numbers = itertools.count(1)
_MIN_MEMORY_MB = 512
"""An attempt with less memory starts no engine ahead: a waiting one has about 30 MB of its own."""
_log = logging.getLogger("terracrew.executor")


class Command(NamedTuple):
    arguments: Sequence[str]
    stdout: int | None = None
    """Where its standard output goes, if not into the log."""


class StartedAhead(NamedTuple):
    command: Command
    env: Mapping[str, str]
    process: EngineProcess


def is_possible(context: StepContext) -> bool:
    limits, memory_mb = context.spec.limits, context.memory_mb
    has_limit = limits.memory_mb or limits.processes or (memory_mb is not None and memory_mb < _MIN_MEMORY_MB)
    is_needed = isinstance(context.engine, StartsAhead) and Step.PLAN not in context.reused
    return is_needed and not has_limit and procfs.has_children_files()


def start_plan(context: StepContext) -> None:
    """Start the engine of the plan, unless something else that may change its environment comes before it."""
    has_hook = any(each.step in (Step.INIT, Step.VALIDATE, Step.PLAN) for each in context.spec.hooks)
    if not has_hook and is_checked_by_plan(context, Step.VALIDATE) and Step.PLAN in STEPS_OF[context.spec.type]:
        _start(context, Command(arguments(context, Step.PLAN)))


def start_description(context: StepContext) -> None:
    """Start the engine that describes the plan."""
    session = context.session
    wanted = session.facts_arguments()
    if wanted is None and isinstance(session, DescribesPlans):
        wanted = session.description_arguments()
    if wanted is not None:
        _start(context, Command(wanted, context.printed.descriptor))


def is_checked_by_plan(context: StepContext, step: Step) -> bool:
    """Whether the plan repeats everything that the step does. A hook or a flag is a reason to run it nevertheless."""
    engine, spec = context.engine, context.spec
    has_addition = bool(spec.flags.get(step)) or any(each.step == step for each in spec.hooks)
    is_repeated = isinstance(engine, ValidatesInPlan) and engine.validates_in_plan
    return step is Step.VALIDATE and is_repeated and not has_addition


def arguments(context: StepContext, step: Step) -> list[str]:
    flags = context.spec.flags.get(step, [])
    return context.session.arguments(step, is_destroying=context.spec.is_destroying, flags=flags)


def environment(context: StepContext) -> dict[str, str]:
    """Return the environment of a command that starts now."""
    return context.env | context.cloud.environment()


def take(context: StepContext, command: Command) -> EngineProcess | None:
    """Let the engine go on that was started ahead for this command. Returns None if there is none that is right now."""
    if (found := _find(context, command, environment(context))) is None:
        return None
    context.ahead.remove(found)
    return found.process if found.process.go_on() else None


def give_up(context: StepContext) -> None:
    while context.ahead:
        context.ahead.pop().process.give_up()


def _start(context: StepContext, command: Command) -> None:
    env = environment(context)
    if not is_possible(context) or _find(context, command, env) is not None:
        return
    assert isinstance(context.engine, StartsAhead)
    ruleset, variable = (
        context.isolation.ruleset(context.found.path, context.session),
        context.engine.gate_variable(env),
    )
    if ruleset is None or variable is None:
        return
    # An engine that was let go on may not have read its link yet, so each has its own.
    link = context.files.provided / f"first-file-{next(_numbers)}"
    try:
        if (closed := gate.make(link, variable, env)) is not None:
            context.ahead.append(StartedAhead(command, env, _process(context, command, env, ruleset, closed)))
    except OSError as error:  # what is wrong, such as a full disk, is found again when the command starts
        _log.info("no engine is started ahead: %s", error)


def _process(
    context: StepContext, command: Command, env: Mapping[str, str], ruleset: Ruleset, closed: Gate
) -> EngineProcess:
    try:
        return EngineProcess(
            command.arguments,
            cwd=context.folder,
            env=env,
            output=context.output.descriptor,
            stdout=command.stdout,
            ladder=context.ladder,
            ruleset=ruleset,
            gate=closed,
        )
    except OSError:
        closed.close()
        raise


def _find(context: StepContext, command: Command, env: Mapping[str, str]) -> StartedAhead | None:
    return next((each for each in context.ahead if (each.command, each.env) == (command, env)), None)
