"""Saves the plan of an attempt with its workspace: for an approval, or for another job that applies it."""

from terracrew.attempt import encryption
from terracrew.errors import TerracrewError
from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.saved_plan import save
from terracrew.executor.steps import hook_plan
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.events import KeptPlan, Result
from terracrew.protocol.spec import Step


async def for_approval(context: StepContext, step: Step, why: str) -> Result:
    """Save the plan and return the result WAITING, because a person has to approve it. The attempt ends and does not wait for that."""
    context.recorder.say(f"Waiting for approval: {why}. The plan is saved")
    try:
        kept = await _keep(context, waits_for_space=True)
    except (TerracrewError, OSError) as error:
        return context.not_started(step, error, "its plan cannot be kept: ")
    if context.control.is_stopping:
        return context.stopped(f"before {step}")
    return Result("WAITING", why, kept=kept)


async def for_another_job(context: StepContext) -> KeptPlan | None:
    """Save the plan of a PLAN job if it would change something. If that is not possible, the job has succeeded nevertheless."""
    if not context.plan.has_changes or context.control.is_stopping:
        return None
    try:
        kept = await _keep(context, waits_for_space=False)
    except (TerracrewError, OSError) as error:
        if context.has_stopped(error):
            return None
        context.recorder.say(f"This plan cannot be applied later, because it could not be saved: {error}")
        return None
    context.recorder.say(f"The plan is saved. To apply it as it is: terracrew job apply {context.spec.number}")
    return kept


async def _keep(context: StepContext, *, waits_for_space: bool) -> KeptPlan:
    spec = context.spec
    hook_plan.check(context)
    return await save.keep(
        context.prepared.found,
        context.files.plan,
        directory=context.directory,
        context=encryption.saved_plan_context(spec.job_id, spec.attempt),
        key=context.granted.credentials.state_key,
        state_version=context.state_version,
        plan_sha256=context.plan.sha256,
        transfer=context.transfer,
        control=context.control,
        confinement=SourceConfinement(context.start.isolation, context.start.environment),
        say=context.recorder.say,
        waits_for_space=waits_for_space,
    )
