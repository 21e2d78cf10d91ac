"""Runs the command of a step with the engine, and records a state that a mutating command leaves behind."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

import msgspec

from terracrew.attempt import downloads, last_outputs
from terracrew.engine_rules import flags as engine_flags
from terracrew.errors import Invalid
from terracrew.executor.engines import error_summary, plan_file
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.sources import workspace
from terracrew.executor.state import identity, leftover
from terracrew.executor.steps import hook_plan, preparation
from terracrew.executor.steps.context import StepContext
from terracrew.plan_diff import document
from terracrew.plan_diff.plan_json import PlanJson
from terracrew.protocol.events import MAX_OUTPUTS_BYTES
from terracrew.protocol.spec import Step
from terracrew.wording import plan_words

_MAX_FACTS_BYTES = 512 << 20
"""The largest description of a plan that is read. A plan of 10,000 resources has about 50 MB."""
_MAX_SCHEMAS_BYTES = 512 << 20
"""The most schemas that are read. Those of all resources of a large cloud have more than 100 MB."""


_LOST_CHANGES = (
    "The engine, or a plug-in of it, ended before it was known how all changes ended: something that was being changed may be in "
    "no state"
)


_NOT_DESCRIBED = (
    "A plan was made, but the engine could not describe it. Nobody knows what it would do, so it is not used"
)


class EngineFailedError(Exception):
    """The engine ended a step with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


async def run(context: StepContext, step: Step, stdout: int | None = None) -> None:
    """Run the command of a step to its end. Raises EngineFailedError if it does not succeed."""
    session = context.prepared.session
    if not step.is_mutating:  # a mutating step got its tokens with its permission, and must start at once
        await context.cloud.enter(step.phase)
    session.before(step)
    flags = context.spec.flags.get(step, [])
    engine_flags.check(context.spec.engine, step, flags)
    if context.spec.backend == "terracrew" and any(
        engine_flags.name_of(flag) == engine_flags.BACKEND_FLAG for flag in flags
    ):
        raise Invalid(
            f"`-{engine_flags.BACKEND_FLAG}` cannot be added to {step}, because Terracrew keeps the state of this module"
        )
    if step is Step.PLAN:
        _warn(context)
    arguments = session.arguments(step, is_destroying=context.spec.is_destroying, flags=flags)
    await _run_program(context, step, arguments, stdout)
    session.after(step)
    if step is Step.INIT and (items := session.missing_downloads):
        downloads.record(context.directory, context.spec.engine, items)


async def plan(context: StepContext) -> None:
    """Make a plan, take it out of the reach of the engine, and record what it would do."""
    hook_plan.forget(context)
    await run(context, Step.PLAN)
    context.plan.sha256 = await asyncio.to_thread(plan_file.take, context.files)
    await _report_plan(context)


def _warn(context: StepContext) -> None:
    """Say what the state that a plan is made from tells about an earlier change."""
    session, state = context.prepared.session, context.states.current
    if state and (warning := session.state_warning(state)):
        context.recorder.say(warning)


async def _run_program(context: StepContext, step: Step, arguments: Sequence[str], stdout: int | None = None) -> None:
    """Run the program of the engine to its end, as a part of a step. Raises EngineFailedError if it does not succeed."""
    states = context.states
    preparation.place_state(context)
    process = EngineProcess(
        arguments,
        cwd=context.prepared.folder,
        env=context.env | context.cloud.environment(),
        output=context.output.descriptor,
        stdout=stdout,
        stop_delays=context.stop_delays,
        ruleset=context.isolation.ruleset(context.prepared.found.path, context.prepared.session),
    )
    context.mutation.is_started = step.is_mutating
    states.is_writable = step.is_mutating
    try:
        async with _followed(context, step):
            context.mutation.exit_code = code = await context.wait_for(process, step)
    finally:
        states.is_writable = False
        # The engine may have been killed while its last state was still being written to the disk.
        await states.settle()
        context.backend.release()
    context.was_killed = context.was_killed or process.was_killed
    await context.output.drain()
    if code:
        raise EngineFailedError(code)


async def mutate(context: StepContext, step: Step, since: int) -> None:
    """Run a mutating command, record a state that it could not save, and determine whether it ended in order."""
    plan_file.check(context.files.plan, context.plan.sha256)
    context.states.has_unsaved = context.mutation.is_orderly = False
    kills = context.oom_kills.count()
    failure: Exception | None = None
    try:
        await run(context, step)
    except Exception as error:  # it is raised again below, after a state that was left has been recorded
        failure = error
    has_left = await (_collect_file(context) if context.prepared.state_file else _collect_leftover(context))
    context.states.mask_outputs()
    code = context.mutation.exit_code
    if not context.states.has_unsaved and (has_left or code is not None):
        printed = error_summary.tail(context.output_file, since)
        # A failed engine may have ended by itself and saved its state: what a plug-in made and did not report is not in it.
        has_lost = bool(code) and (
            context.oom_kills.count() > kills or identity.has_lost_changes(context.spec.engine, printed)
        )
        has_ended = has_left or (code is not None and context.prepared.session.has_ended_in_order(code, printed))
        context.mutation.is_orderly = has_ended and not has_lost
        if has_lost:
            context.recorder.say(_LOST_CHANGES)
    if failure is not None:
        raise failure


@asynccontextmanager
async def _followed(context: StepContext, step: Step) -> AsyncGenerator[None]:
    """Record what a mutating command writes to its file with the state, if it has one, while the block runs."""
    if context.prepared.state_file is None or not step.is_mutating:
        yield
        return
    async with context.prepared.state_file.followed(context.states.write):
        yield


async def _collect_file(context: StepContext) -> bool:
    """Record the last content of the file with the state. Returns whether what is there cannot be used as a state."""
    states, file = context.states, context.prepared.state_file
    assert file is not None
    try:
        content = file.changed()
    except (Invalid, OSError) as error:
        states.has_unsaved = True
        context.recorder.say(f"The state of the engine cannot be read: {error}")
        return True
    if content is None:
        return False
    states.is_writable = True
    try:
        await states.write(content)
    except Invalid:  # it is kept unchanged, because there is no other copy
        await states.write(content, "errored")
        context.recorder.say(leftover.collected(file.path.name, states.problem))
        return True
    finally:
        states.is_writable = False
    file.recorded(content)
    return False


async def _collect_leftover(context: StepContext) -> bool:
    """Record a state that the engine could not save. Returns whether there was one. It is as valid as any other, unless another
    backend should have it: then the next plan does not read it (`States.has_unsaved`)."""
    states, recorder = context.states, context.recorder
    place = workspace.of(context.directory)
    path = leftover.find(context.prepared.session.leftover, place)
    if path is None:
        return False
    content = leftover.read(path, place)
    if content is None:
        states.has_unsaved = True
        recorder.say(leftover.too_large(path.name))
        return True
    states.is_writable = True
    try:
        await states.write(content, "errored")
    finally:
        states.is_writable = False
    recorder.say(leftover.collected(path.name, states.problem))
    return True


async def read_outputs(context: StepContext) -> None:
    with context.printed.received(MAX_OUTPUTS_BYTES):
        await run(context, Step.OUTPUT, context.printed.descriptor)
    printed = context.printed.take("outputs")
    try:
        outputs = context.prepared.session.outputs(printed)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"the engine printed outputs that cannot be read: {error}") from error
    kept = await context.outputs.record(outputs)
    last_outputs.record(context.directory, context.spec, kept.outputs, kept.sha256)


async def _report_plan(context: StepContext) -> None:
    """Record what the plan that was just made would do: a summary, and a diff if the engine can describe its plan."""
    session = context.prepared.session
    facts_arguments = session.facts_arguments()
    try:
        facts = await _described(context, facts_arguments, _MAX_FACTS_BYTES) if facts_arguments else None
    except EngineFailedError:
        if context.control.stop_mode(is_mutating=False) is None:
            context.recorder.say(_NOT_DESCRIBED)
        raise
    summary = session.summarize(facts, context.states.current)
    if context.spec.backend == "own" and not summary.existing:
        # What the engine looked at was counted. It may have looked at nothing (`-refresh=false`) although something exists.
        summary = msgspec.structs.replace(summary, existing=None, unchanged=None)
    context.recorder.fact(summary)
    context.plan.has_changes = plan_words.has_changes(summary)
    if hook_plan.is_wanted(context):
        await hook_plan.write(context, await _description(context, facts))
    await _record_json(context, facts)
    if not session.describes_plans or not (context.plan.has_changes or context.spec.is_refresh_only):
        return
    try:
        await context.plan_diffs.record(session.describe, await _description(context, facts))
    except (EngineFailedError, Invalid) as error:
        if context.control.stop_mode(is_mutating=False) is not None:  # the engine was stopped
            raise
        context.recorder.say(f"The plan is complete, but its changes cannot be shown by attribute: {_why(error)}")


async def _record_json(context: StepContext, facts: bytes | None) -> None:
    """Record the JSON of the plan that was just made, if a command line may show it or policies look at it."""
    session, sha256 = context.prepared.session, context.plan.sha256
    if not context.spec.needs_plan_json or not session.has_plans_to_show:
        await _record_json_of_policies(context, facts)
        return
    try:
        described = await _description(context, facts)
        arguments = session.schema_arguments(described)
        schemas = await _described(context, arguments, _MAX_SCHEMAS_BYTES) if arguments else None
        await context.plan_diffs.record_json(lambda mask: session.plan_to_show(described, schemas, mask), sha256)
    except (EngineFailedError, Invalid) as error:
        if context.control.stop_mode(is_mutating=False) is not None:  # the engine was stopped
            raise
        context.recorder.say(f"The plan is complete, but `show` will not show it: {_why(error)}")


async def _record_json_of_policies(context: StepContext, facts: bytes | None) -> None:
    """Record the JSON that hooks are given, too. Without it, the server does not permit what a mandatory policy has to pass."""
    session = context.prepared.session
    if not context.spec.has_policies or not session.has_plan_json:
        return
    try:
        described = await _description(context, facts)
        made = context.plan_diffs.record_json(
            lambda mask: PlanJson(msgspec.Raw(session.plan_json(described, mask))), context.plan.sha256
        )
        await made
    except (EngineFailedError, Invalid) as error:
        if context.control.stop_mode(is_mutating=False) is not None:  # the engine was stopped
            raise
        context.recorder.say(f"The plan is complete, but policies cannot look at it: {_why(error)}")


def _why(error: EngineFailedError | Invalid) -> str:
    return f"the engine ended with code {error.code}" if isinstance(error, EngineFailedError) else str(error)


async def _description(context: StepContext, facts: bytes | None) -> bytes:
    """Return what the engine prints to describe the plan. These are often the facts that it has printed already."""
    session = context.prepared.session
    arguments = session.description_arguments()
    if arguments is None:
        return b""
    if facts is not None and arguments == session.facts_arguments():
        return facts
    # The attributes of a smaller one may be left out already.
    return await _described(context, arguments, 4 * document.MAX_PLAN_BYTES)


async def _described(context: StepContext, arguments: Sequence[str], max_bytes: int) -> bytes:
    """Return what a command prints that describes the plan."""
    with context.printed.received(max_bytes):
        await _run_program(context, Step.PLAN, arguments, context.printed.descriptor)
    return context.printed.take("facts about its plan")
