"""Asks the server for permission to start a mutating step; plans again, or saves the plan, if the answer says so."""

import asyncio
from collections.abc import Awaitable, Callable

from terracrew.attempt import encryption
from terracrew.errors import TerracrewError
from terracrew.executor.delivery.begin import ApprovalNeeded, StateMoved
from terracrew.executor.isolation.source_rules import SourceConfinement
from terracrew.executor.saved_plan import save
from terracrew.executor.state import leftover
from terracrew.executor.steps import hook_plan, preparation
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.events import KeptPlan, Result
from terracrew.protocol.spec import Step

MAX_REPLANS = 3
_NOTICE_SECONDS = 1.0
"""After waiting this long for permission, the job says so in its log."""


async def ask(context: StepContext, step: Step, plan: Callable[[], Awaitable[Result | None]]) -> Result | None:
    """Return None when the step may start; otherwise how the job ends. `plan` runs the PLAN step again."""
    session, recorder = context.prepared.session, context.recorder
    # This is done before asking, because the permission is valid for seconds and these calls wait for the disk. Lines of the
    # log until the step starts belong to the step before it, so a job that was never applied has no log of an apply.
    try:
        place = leftover.place_of(session.leftover, context.directory, context.files)
        if leftover.remove(session.leftover, place) and context.prepared.state_file is None:
            recorder.say(f"Removed an old {session.leftover.name}, which is not of this {step}")
        _expect(context)
    except (TerracrewError, OSError) as error:
        return context.not_started(step, error)
    for _ in range(1 + MAX_REPLANS):
        notice = asyncio.get_running_loop().call_later(
            _NOTICE_SECONDS, recorder.say, f"Waiting for permission to {step}"
        )
        try:
            await context.obtain_permit()
            if context.cloud:
                await context.cloud.enter("apply")
                # That may have taken longer than the permission is valid, so the permission is requested again.
                await context.obtain_permit()
            return None
        except StateMoved as moved:
            recorder.say(f"{moved.message}: planning again")
        except ApprovalNeeded as needed:
            notice.cancel()
            return await for_approval(context, step, needed.message)
        except (TerracrewError, OSError) as refusal:
            return context.not_started(step, refusal)
        finally:
            notice.cancel()
        try:
            await preparation.fetch_state(context)
            _expect(context)
        except (TerracrewError, OSError) as error:
            return context.not_started(step, error, "the current state could not be fetched: ")
        context.plan.attempt = None
        if result := await plan():
            return result
    text = f"{step} was not started: the state moved {1 + MAX_REPLANS} times while it was planned"
    return Result("FAILED", text, failure_kind="state_moved")


def _expect(context: StepContext) -> None:
    """Record that a mutating step is about to start. A file with the state is written when its engine starts."""
    path, engine = context.prepared.session.leftover, context.spec.engine
    is_ours = context.spec.backend == "terracrew"
    known = preparation.state_to_place(context)
    leftover.expect(context.directory, context.files, path, engine, known, is_kept_here=is_ours)


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
