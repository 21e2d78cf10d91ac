"""Runs the steps of a job one after the other, reports the status of each, and explains the result for people."""

import asyncio
import contextlib

import msgspec

from terracrew.errors import Forbidden, TerracrewError
from terracrew.executor.engines import error_summary
from terracrew.executor.engines.error_summary import EngineFailure
from terracrew.executor.steps import engine_command, hooks, permission, preparation, warm_workspace
from terracrew.executor.steps.context import Mutation, StepContext
from terracrew.executor.steps.engine_command import EngineFailedError
from terracrew.executor.steps.hooks import HookFailedError
from terracrew.protocol.events import Result, StepRetry, StepStatus
from terracrew.protocol.spec import STEPS_OF, JobType, Step
from terracrew.wording.durations import duration

_INTERRUPTED = "the engine was interrupted from outside (the host is shutting down, or its service was stopped)"
_CUT_SHORT = "; what it changed last may be in no state"
_CARRIED_OUT = "it was asked to stop during the change, which was carried out to its end"
_COMPLETE = "; it ended in order, so its state is complete"


class _ColdAgain:
    """A step failed because of what `init` made, now or earlier: `init` has to run, and then the step again."""


class Steps:
    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._recorder, self._control = context.recorder, context.control
        self._is_in_hook = False
        """Whether the current step runs hooks, or ended in them."""

    async def run(self) -> Result:
        """Run all steps, or up to the first that does not succeed; the steps after it are reported as skipped."""
        context, job_type = self._context, self._context.spec.type
        remaining = list(STEPS_OF.get(job_type, ()))
        result = None if remaining else Result("FAILED", f"an executor does not run jobs of type {job_type}")
        warning, has_changed = "", False
        while remaining and result is None:
            step = remaining[0]
            if self._control.is_stopping and not (step is Step.OUTPUT and has_changed and self._may_read_outputs):
                result = context.stopped(f"before {step}")
            elif self._is_skipped(step):
                self._recorder.fact(
                    StepStatus(remaining.pop(0), "SKIPPED", kept_from=context.kept_from if step is Step.INIT else None)
                )
            elif not step.is_mutating or (result := await self._ask_permission(step)) is None:
                result = await self._run(remaining.pop(0))
                has_changed = has_changed or (step.is_mutating and result is None)
                if step is Step.OUTPUT and result is not None and result.status == "FAILED":
                    if self._is_in_hook:  # a hook can fail a job at any step
                        result = msgspec.structs.replace(result, message=f"the change was made, but {result.message}")
                        continue
                    # The change was made, so the job has succeeded. The outputs of an older job are marked as such where they are shown.
                    done = "destroyed" if job_type is JobType.DESTROY else "applied"
                    warning, result = f"{done}, but its outputs are not kept: {result.message}", None
                    self._recorder.say(f"The job was {warning}")
        if not (result and result.status == "WAITING"):  # for WAITING, the remaining steps run in a later attempt
            for step in remaining:
                self._recorder.fact(StepStatus(step, "SKIPPED"))
        context.cloud.clear()
        if result is not None and result.status == "CANCELED" and has_changed:
            text = f"the change was carried out to its end, but its outputs are not kept: {result.message}"
            result = msgspec.structs.replace(result, message=text)
        if result is None and not warning and has_changed and self._control.cancel is not None:
            warning = _CARRIED_OUT
        if result is None and job_type is JobType.PLAN:
            return Result("SUCCEEDED", warning, kept=await permission.for_another_job(context))
        return result or Result("SUCCEEDED", warning)

    @property
    def _may_read_outputs(self) -> bool:
        """Whether outputs are read after a change although the job was asked to stop: after the step means that nothing is left half
        done, and without its outputs it would be."""
        others = (self._control.ended_by, self._control.limit, self._control.superseded, self._control.refused)
        return self._control.cancel == "after_step" and not any(others)

    def _is_skipped(self, step: Step) -> bool:
        """Whether a saved plan, the next step or a warm workspace makes the step unnecessary, or the engine does not have it and no
        hook belongs to it."""
        context = self._context
        if step is Step.FETCH:
            return False
        if step in context.reused or self._is_checked_by_plan(step):
            return True
        if step not in context.prepared.engine.steps:
            return not self._has_hook(step)
        if step is not Step.INIT:
            return False
        self._recorder.step = step
        return self._is_init_unnecessary() or warm_workspace.enter(context)

    def _is_checked_by_plan(self, step: Step) -> bool:
        """Whether the plan repeats everything that the step does."""
        return (
            step is Step.VALIDATE and self._context.prepared.engine.validates_in_plan and not self._has_addition(step)
        )

    def _is_init_unnecessary(self) -> bool:
        """Whether `init` has nothing to do."""
        if self._has_addition(Step.INIT) or self._context.prepared.session.needs_init():
            return False
        self._recorder.say("Init is skipped: this program has nothing to install")
        return True

    def _has_addition(self, step: Step) -> bool:
        """Whether somebody added a flag or a hook to the step, which is a reason to run it although it seems unnecessary."""
        return bool(self._context.spec.flags.get(step)) or self._has_hook(step)

    def _has_hook(self, step: Step) -> bool:
        return any(each.step == step for each in self._context.spec.hooks)

    async def _ask_permission(self, step: Step) -> Result | None:
        return await permission.ask(self._context, step, lambda: self._run(Step.PLAN))

    async def _run(self, step: Step) -> Result | None:
        """Run one step, and again after an error that may go away by itself. Returns None if it succeeded.

        The engine of a mutating step is started before any other task can run, and such a step is never repeated.
        """
        tries = 1 + (self._context.spec.limits.plan_retries or 0) if step.phase == "plan" else 1
        number = 1
        while isinstance(ended := await self._try(step, number, tries), StepRetry | _ColdAgain):
            if isinstance(ended, _ColdAgain):
                if self._control.is_stopping:
                    return self._context.stopped(f"before {step}")
                if step is not Step.INIT and (failed := await self._run(Step.INIT)) is not None:
                    return failed
                continue
            number = ended.number
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ended.seconds):
                    await self._control.stopping()
                    return self._context.stopped(f"before try {number} of {step}")
        return ended

    async def _try(self, step: Step, number: int, tries: int) -> "Result | StepRetry | _ColdAgain | None":
        context = self._context
        self._recorder.step = step
        self._recorder.fact(StepStatus(step, "RUNNING"))
        since = self._recorder.offsets.position
        kills = context.oom_kills.count()
        context.mutation = run = Mutation()
        context.limits.enter(step)
        try:
            exit_code = await self._do(step, since)
        except EngineFailedError as ended:
            printed = error_summary.tail(context.output_file, since)
            if not self._control.is_stopping and context.prepared.session.has_received_interrupt(printed):
                self._control.end(_INTERRUPTED)
            if self._control.stop_mode(is_mutating=step.is_mutating) is not None:
                return self._stopped(step, run, ended.code)
            if (why := await self._reason_for_init(step, printed)) and warm_workspace.leave(context):
                first = "" if step is Step.INIT else "init runs now, and "
                self._recorder.say(f"{step} failed because {why}: {first}{step} is tried once more")
                again = StepRetry(number + 1, max(tries, number) + 1, 0.0, why)
                self._recorder.fact(StepStatus(step, "FAILED", ended.code, run.is_cut_short, again))
                return _ColdAgain()
            if hint := context.isolation.hint(printed):
                self._recorder.say(hint)
            if hint := preparation.import_hint(context, step, printed):
                self._recorder.say(hint)
            details = context.prepared.session.failure_details(printed)
            failure = error_summary.failure(ended.code, details, context.oom_kills.count() - kills, printed)
            is_transient = not failure.failure_kind and error_summary.is_transient(printed)
            retry = self._retry(number, tries, failure.text) if is_transient else None
            failure = failure._replace(text=f"{failure.text}. {hint}") if hint else failure
            return self._failed(step, run, failure, ended.code, retry)
        except (TerracrewError, OSError) as error:
            if context.has_stopped(error):
                return self._stopped(step, run, run.exit_code, error)
            self._recorder.say(str(error))
            retry = self._retry(number, tries, str(error)) if getattr(error, "is_transient", False) else None
            is_refusal = self._is_in_hook and isinstance(error, HookFailedError | Forbidden)
            failure = EngineFailure(str(error), "hook") if is_refusal else error_summary.failure_of(error)
            return self._failed(step, run, failure, run.exit_code, retry)
        except Exception:  # `main` reports this bug; the server must still learn what the engine did
            self._recorder.fact(StepStatus(step, "FAILED", run.exit_code, run.is_cut_short))
            raise
        finally:
            context.limits.leave()
        self._recorder.fact(StepStatus(step, "SUCCEEDED", exit_code, run.is_cut_short))
        return None

    async def _reason_for_init(self, step: Step, printed: str) -> str:
        """Return why `init` has to run before a failed step can succeed; '' if that is not the reason of the failure.

        The workspace is warm at most once, and a damaged download is left out afterwards, so this does not go on for ever.
        """
        context, session = self._context, self._context.prepared.session
        if step not in (Step.INIT, Step.VALIDATE, Step.PLAN) or not session.keeps_init:
            return ""
        if damaged := await asyncio.to_thread(session.leave_out_damaged, printed):
            return f"{', '.join(damaged)} is damaged in the cache of this runner"
        if context.kept_from is not None and session.is_init_missing(printed):
            return "something that init gets is missing in the warm workspace"
        return ""

    def _retry(self, number: int, tries: int, reason: str) -> StepRetry | None:
        """Return when the next try starts; None if this was the last one."""
        if number >= tries:
            return None
        return StepRetry(
            number + 1, tries, error_summary.retry_delay_seconds(self._context.start.retry_seconds, number), reason
        )

    def _failed(
        self, step: Step, run: Mutation, failure: EngineFailure, exit_code: int | None, retry: StepRetry | None
    ) -> Result | StepRetry:
        self._recorder.fact(StepStatus(step, "FAILED", exit_code, run.is_cut_short, retry))
        if retry is not None:
            self._recorder.say(
                f"{step} failed, and the error may go away by itself: try {retry.number} of {retry.tries} starts in {retry.seconds:.0f} s"
            )
            return retry
        return Result(
            "FAILED",
            f"{step} failed: {failure.text}",
            self._context.is_lock_free(exit_code),
            failure_kind=failure.failure_kind,
        )

    def _stopped(self, step: Step, run: Mutation, exit_code: int | None, error: Exception | None = None) -> Result:
        """Return the result of a job that was stopped in this step, by a request or by one of its limits."""
        context, reached = self._context, self._control.limit
        is_limit = reached is not None and self._control.cancel is None
        status = "FAILED" if is_limit else "CANCELED"
        self._recorder.fact(StepStatus(step, status, exit_code, run.is_cut_short))
        if reached is None or not is_limit:
            return context.stopped(f"during {step}")
        how = "killed"
        if reached.mode == "interrupt":
            how = "interrupted, did not end, and was killed" if run.was_killed else "interrupted and ended"
        text = f"{reached.text}: it was {how} after {duration(context.limits.step_seconds, exact=True)} in this step"
        if isinstance(error, HookFailedError):
            text += f" ({error})"
        if step.is_mutating:
            text += _CUT_SHORT if run.is_cut_short else _COMPLETE
        return Result("FAILED", text, context.is_lock_free(exit_code), failure_kind=reached.failure_kind)

    async def _do(self, step: Step, since: int) -> int | None:
        """Carry out a step. Returns the exit code of the engine if the step has a command."""
        context = self._context
        self._is_in_hook = False
        if step is Step.FETCH:
            return await preparation.fetch(context)
        if step is Step.INPUTS:
            return preparation.write_inputs(context)
        self._is_in_hook = True
        await hooks.before(context, step)
        self._is_in_hook = False
        try:
            await self._command(step, since)
        except (EngineFailedError, TerracrewError, OSError):
            await hooks.after_failure(context, step)
            raise
        self._is_in_hook = True
        await hooks.after(context, step)
        self._is_in_hook = False
        return 0

    async def _command(self, step: Step, since: int) -> None:
        context = self._context
        if step not in context.prepared.engine.steps:
            self._recorder.say(
                f"{context.prepared.engine.name} has no command for {step}: only the hooks of this step run"
            )
            return
        if step.is_mutating:
            await engine_command.mutate(context, step, since)
        elif step is Step.OUTPUT:
            await engine_command.read_outputs(context)
        elif step is Step.PLAN:
            await engine_command.plan(context)
        else:
            await engine_command.run(context, step)
        if step is Step.INIT:
            warm_workspace.keep(context)
