"""What differs in a job that imports resources which an earlier attempt created and no state records."""

import shlex

from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import Step

_MAX_NAMED = 5


def prepare_state(context: StepContext) -> None:
    """Take what the earlier attempt destroyed out of the state that the engine reads, where it created something in its place."""
    state, session = context.states.current, context.prepared.session
    destroyed = {each.address: each.destroyed_id for each in context.spec.imports if each.destroyed_id}
    if state and destroyed:
        context.states.current = session.without_destroyed(state, destroyed)


def hint(context: StepContext, step: Step, printed: str) -> str:
    """Return which resources a failed plan could not import and how to leave them out; '' if that is not why it failed."""
    spec, session = context.spec, context.prepared.session
    if step is not Step.PLAN or not spec.imports:
        return ""
    refused = session.refused_imports(printed, [each.address for each in spec.imports])
    if not refused:
        return ""
    options = " ".join(f"--leave-out {shlex.quote(each)}" for each in refused[:_MAX_NAMED])
    more = f" and {len(refused) - _MAX_NAMED} more" if len(refused) > _MAX_NAMED else ""
    return (
        f"{', '.join(refused[:_MAX_NAMED])}{more} could not be imported. To plan without: "
        f"terracrew job run {shlex.quote(spec.module_path)} --apply --import-lost {options}{more}"
    )
