"""Runs the steps of a job one after the other, reports the status of each, and explains the result for people."""

from terracrew.errors import TerracrewError
from terracrew.executor.engines import error_summary
from terracrew.executor.engines.oom_kills import OomKills
from terracrew.executor.steps import engine_command, hooks, lost_imports, permission, preparation
from terracrew.executor.steps.context import StepContext
from terracrew.executor.steps.engine_command import EngineFailedError
from terracrew.executor.steps.mutation import Mutation
from terracrew.protocol.events import Result, StepStatus
from terracrew.protocol.spec import STEPS_OF, Step

_INTERRUPTED = "the engine was interrupted from outside (the host is shutting down, or its service was stopped)"


class Steps:
    def __init__(self, context: StepContext) -> None:
        self._context = context
        self._recorder, self._control = context.recorder, context.control
        self._oom_kills = OomKills()

    async def run(self) -> Result:
        """Run all steps, or up to the first that does not succeed; the steps after it are reported as skipped."""
        context, job_type = self._context, self._context.spec.type
        remaining = list(STEPS_OF.get(job_type, ()))
        result = None if remaining else Result("FAILED", f"an executor does not run jobs of type {job_type}")
        warning = ""
        while remaining and result is None:
            step = remaining[0]
            if self._control.is_stopping:
                result = context.stopped(f"before {step}")
            elif self._is_skipped(step):
                self._recorder.fact(StepStatus(remaining.pop(0), "SKIPPED"))
            elif not step.is_mutating or (result := await self._ask_permission(step)) is None:
                result = await self._run(remaining.pop(0))
                if step is Step.OUTPUT and result is not None and result.status == "FAILED":
                    # The change was made, so the job has succeeded. The outputs of an older job are marked as such where they are shown.
                    warning, result = f"applied, but its outputs are not kept: {result.message}", None
                    self._recorder.say(f"The job was {warning}")
        if not (result and result.status == "WAITING"):  # for WAITING, the remaining steps run in a later attempt
            for step in remaining:
                self._recorder.fact(StepStatus(step, "SKIPPED"))
        context.cloud.clear()
        return result or Result("SUCCEEDED", warning)

    def _is_skipped(self, step: Step) -> bool:
        """Whether a saved plan makes the step unnecessary, or the engine does not have it. FETCH finds out both."""
        return step is not Step.FETCH and (step in self._context.reused or step not in self._context.engine.steps)

    async def _ask_permission(self, step: Step) -> Result | None:
        return await permission.ask(self._context, step, lambda: self._run(Step.PLAN))

    async def _run(self, step: Step) -> Result | None:
        """Run one step. Returns None if it succeeded. The engine of a mutating step is started before any other task can run."""
        context = self._context
        self._recorder.step = step
        self._recorder.fact(StepStatus(step, "RUNNING"))
        since = self._recorder.offsets.position
        kills = self._oom_kills.count()
        context.mutation = run = Mutation()
        try:
            exit_code = await self._do(step, since)
        except EngineFailedError as ended:
            printed = error_summary.tail(context.output_file, since)
            if not self._control.is_stopping and context.session.has_received_interrupt(printed):
                self._control.end(_INTERRUPTED)
            is_stopped = self._control.stop_mode(is_mutating=step.is_mutating) is not None
            status = "CANCELED" if is_stopped else "FAILED"
            self._recorder.fact(StepStatus(step, status, ended.code, run.is_cut_short))
            if is_stopped:
                return context.stopped(f"during {step}")
            if hint := context.isolation.hint(printed):
                self._recorder.say(hint)
            if hint := lost_imports.hint(context, step, printed):
                self._recorder.say(hint)
            details = context.session.failure_details(printed)
            reason = error_summary.failure(ended.code, details, self._oom_kills.count() - kills)
            reason = f"{reason}. {hint}" if hint else reason
            return Result("FAILED", f"{step} failed: {reason}", context.is_lock_free(ended.code))
        except (TerracrewError, OSError) as error:
            is_stopped = context.has_stopped(error)
            status = "CANCELED" if is_stopped else "FAILED"
            self._recorder.fact(StepStatus(step, status, run.exit_code, run.is_cut_short))
            if is_stopped:
                return context.stopped(f"during {step}")
            self._recorder.say(str(error))
            return Result("FAILED", f"{step} failed: {error}")
        except Exception:  # `main` reports this bug; the server must still learn what the engine did
            self._recorder.fact(StepStatus(step, "FAILED", run.exit_code, run.is_cut_short))
            raise
        self._recorder.fact(StepStatus(step, "SUCCEEDED", exit_code, run.is_cut_short))
        return None

    async def _do(self, step: Step, since: int) -> int | None:
        """Carry out a step. Returns the exit code of the engine if the step has a command."""
        context = self._context
        if step is Step.FETCH:
            return await preparation.fetch(context)
        if step is Step.INPUTS:
            return preparation.write_inputs(context)
        await hooks.before(context, step)
        try:
            await self._command(step, since)
        except (EngineFailedError, TerracrewError, OSError):
            await hooks.after_failure(context, step)
            raise
        await hooks.after(context, step)
        return 0

    async def _command(self, step: Step, since: int) -> None:
        context = self._context
        if step.is_mutating:
            await engine_command.mutate(context, step, since)
        elif step is Step.OUTPUT:
            await engine_command.read_outputs(context)
        else:
            await engine_command.run(context, step)
        if step is Step.PLAN:
            await engine_command.report_plan(context)
