"""What hooks are given of a plan: its file, and the same as JSON without sensitive values (`docs/hooks.md`).

The hooks after `plan` see it, and those before the step that applies it. The JSON is made only if there is such a hook, and it is
saved with the plan, so that the attempt or the job that goes on with the plan need not describe it again.
"""

import asyncio
import hashlib
import os

from terracrew.errors import Conflict, TooLarge
from terracrew.executor.engines import plan_file
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import Step, StepHook

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_DESCRIPTION_BYTES = 128 << 20
"""A plan of 25,000 resources. A larger one would need gigabytes of memory to be masked."""


def is_wanted(context: StepContext) -> bool:
    """Whether a hook of this job, or of a job that applies its plan, reads the plan as JSON."""
    change = Step.DESTROY if context.spec.is_destroying else Step.APPLY
    hooks = context.spec.hooks
    is_read = any(_sees_plan(each) and each.step in (Step.PLAN, change) for each in hooks)
    return is_read and context.prepared.session.has_plan_json


async def write(context: StepContext, description: bytes) -> None:
    """Write the JSON of the plan that was just made, from what the engine printed to describe it."""
    size = len(description)
    if size > _MAX_DESCRIPTION_BYTES:
        raise TooLarge(
            f"the engine describes this plan in {size:,} bytes. At most {_MAX_DESCRIPTION_BYTES:,} can be given to hooks"
        )
    context.plan.json_sha256 = await asyncio.to_thread(_write, context, description)


def _write(context: StepContext, description: bytes) -> str:
    content = context.prepared.session.plan_json(description, context.recorder.redactor.mask_text)
    with open(os.open(context.files.plan_json, _NEW_FILE, 0o600), "wb") as file:
        file.write(content)
    return hashlib.sha256(content).hexdigest()


def forget(context: StepContext) -> None:
    """Remove the JSON of an earlier plan."""
    context.files.plan_json.unlink(missing_ok=True)
    context.plan.json_sha256 = ""


def accept(context: StepContext) -> None:
    """Use the JSON that was restored with a saved plan."""
    if context.files.plan_json.exists():
        context.plan.json_sha256 = plan_file.digest_of(context.files.plan_json)


def check(context: StepContext) -> None:
    """Raise Conflict if the JSON is not what the executor has written. Without isolation, the engine can write to every file."""
    if context.plan.json_sha256:
        plan_file.check(context.files.plan_json, context.plan.json_sha256)


def variables(context: StepContext, wanted: StepHook) -> dict[str, str]:
    """Return the variables that name the plan to a hook; none to a hook at another place."""
    if not _sees_plan(wanted) or not context.plan.sha256:
        return {}
    plan_file.check(context.files.plan, context.plan.sha256)
    found = {"TERRACREW_PLAN_FILE": str(context.files.plan)}
    if not is_wanted(context):
        return found
    if not context.plan.json_sha256:
        raise Conflict(f"{wanted} was not run: the plan was saved without its JSON. Plan again")
    check(context)
    return found | {"TERRACREW_PLAN_JSON": str(context.files.plan_json)}


def _sees_plan(hook: StepHook) -> bool:
    if hook.when == "before":
        return hook.step.is_mutating
    return hook.step is Step.PLAN
