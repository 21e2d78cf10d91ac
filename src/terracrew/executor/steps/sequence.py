"""The steps of a job, one after the other: each with its status, and an end that a person understands."""

import asyncio
import os
from pathlib import Path

from terracrew import configurations
from terracrew.attempt import encryption, files, reference
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Conflict, Invalid, Superseded, TerracrewError
from terracrew.executor.control import Control
from terracrew.executor.delivery.begin import ApplyPermit, ApprovalNeeded, StateMoved
from terracrew.executor.delivery.recorder import Recorder
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.engines import error_summary
from terracrew.executor.engines.contract import Engine, EngineLocation, StateAccess
from terracrew.executor.engines.oom_kills import OomKills
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.engines.tofu import plugins
from terracrew.executor.engines.tofu.engine import Tofu
from terracrew.executor.isolation.rules import Isolation
from terracrew.executor.output.engine_output import EngineOutput
from terracrew.executor.saved_plan import save
from terracrew.executor.sources import workspace
from terracrew.executor.state import http_backend, leftover
from terracrew.executor.state.http_backend import StateBackend
from terracrew.executor.state.outputs import Outputs
from terracrew.executor.state.states import States
from terracrew.executor.steps import environment
from terracrew.executor.steps.cloud_tokens import CloudTokens
from terracrew.executor.steps.mutation import Mutation
from terracrew.protocol.events import MAX_OUTPUTS_BYTES, EngineUsed, Result, StepStatus
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import MUTATING, STEPS_OF, Resume, Step
from terracrew.protocol.start import ExecutorStart
from terracrew.toolchains import discovery
from terracrew.toolchains.discovery import FoundEngine

MAX_REPLANS = 3
_REUSED = frozenset({Step.INPUTS, Step.INIT, Step.VALIDATE, Step.PLAN})
"""The steps that a saved plan makes unnecessary."""
_NOTICE_SECONDS = 1.0
_INTERRUPTED = "the engine was interrupted from outside (the host is shutting down, or its service was stopped)"
_SIGNAL_SECONDS = 1.0
"""How long to wait for an engine to report that it got the same signal as its executor."""


class _EngineFailedError(Exception):
    """The engine ended a step with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Steps:
    def __init__(
        self,
        start: ExecutorStart,
        granted: Granted,
        *,
        recorder: Recorder,
        output: EngineOutput,
        states: States,
        backend: StateBackend,
        outputs: Outputs,
        permit: ApplyPermit,
        control: Control,
        transfer: Transfer,
    ) -> None:
        self._start, self._granted, self._spec = start, granted, granted.spec
        self._directory = Path(start.directory)
        self._files = EngineDirectory(Path(start.engine_directory))
        self._recorder, self._output = recorder, output
        self._states, self._backend, self._outputs = states, backend, outputs
        self._permit, self._control, self._transfer = permit, control, transfer
        self._state_version = self._spec.state.version
        self._cloud = CloudTokens(self._files, self._spec.oidc_audiences, transfer=transfer, recorder=recorder)
        self._isolation = Isolation(start, self._files)
        self._plugins = plugins.of_attempt(start, self._files)
        self._was_killed = False
        self._mutation = Mutation()
        self._oom_kills = OomKills()
        self._reused = frozenset[Step]()
        self._plan_attempt: int | None = None
        """Which attempt made the plan, if it is a kept one."""
        self._found: FoundEngine
        self._engine: Engine
        self._folder: Path
        self._env: dict[str, str]

    async def run(self) -> Result:
        """Run them all, or to the first that does not succeed; those after it are marked as skipped."""
        remaining = list(STEPS_OF.get(self._spec.type, ()))
        result = None if remaining else Result("FAILED", f"an executor does not run jobs of type {self._spec.type}")
        warning = ""
        while remaining and result is None:
            step = remaining[0]
            if self._control.is_stopping:
                result = self._stopped(f"before {step}")
            elif step in self._reused:
                self._recorder.fact(StepStatus(remaining.pop(0), "SKIPPED"))
            elif step not in MUTATING or (result := await self._ask_permission(step)) is None:
                result = await self._run(remaining.pop(0))
                if step is Step.OUTPUT and result is not None and result.status == "FAILED":
                    # What the job was for is done, so it has succeeded; the outputs of an older job are shown as such.
                    warning, result = f"applied, but its outputs are not kept: {result.message}", None
                    self._recorder.say(f"The job was {warning}")
        if not (result and result.status == "WAITING"):  # then they are still to come
            for step in remaining:
                self._recorder.fact(StepStatus(step, "SKIPPED"))
        self._cloud.clear()
        return result or Result("SUCCEEDED", warning)

    async def _run(self, step: Step) -> Result | None:
        """One step; None if it succeeded. Of a mutating one, the engine is started before anything else may happen."""
        self._recorder.step = step
        self._recorder.fact(StepStatus(step, "RUNNING"))
        since = self._recorder.offsets.position
        kills = self._oom_kills.count()
        self._mutation = run = Mutation()
        try:
            exit_code = await self._do(step, since)
        except _EngineFailedError as ended:
            printed = error_summary.tail(self._directory / files.OUTPUT, since)
            if not self._control.is_stopping and self._engine.has_heard_interrupt(printed):
                self._control.end(_INTERRUPTED)
            is_stopped = self._control.stop_mode(is_mutating=step in MUTATING) is not None
            status = "CANCELED" if is_stopped else "FAILED"
            self._recorder.fact(StepStatus(step, status, ended.code, run.is_cut_short))
            if is_stopped:
                return self._stopped(f"during {step}")
            if hint := self._isolation.hint(printed):
                self._recorder.say(hint)
            reason = error_summary.failure(ended.code, printed, self._oom_kills.count() - kills)
            return Result("FAILED", f"{step} failed: {reason}")
        except (TerracrewError, OSError) as error:
            is_stopped = self._has_stopped(error)
            status = "CANCELED" if is_stopped else "FAILED"
            self._recorder.fact(StepStatus(step, status, run.exit_code, run.is_cut_short))
            if is_stopped:
                return self._stopped(f"during {step}")
            self._recorder.say(str(error))
            return Result("FAILED", f"{step} failed: {error}")
        except Exception:  # a fault of our own, which `main` reports: what the engine did must be known all the same
            self._recorder.fact(StepStatus(step, "FAILED", run.exit_code, run.is_cut_short))
            raise
        self._recorder.fact(StepStatus(step, "SUCCEEDED", exit_code, run.is_cut_short))
        return None

    async def _do(self, step: Step, since: int) -> int | None:
        match step:
            case Step.FETCH:
                return await self._fetch()
            case Step.INPUTS:
                return self._write_inputs()
            case Step.PLAN:
                await self._engine_run(step)
                self._recorder.fact(self._engine.summarize(self._states.current))
            case Step.APPLY | Step.DESTROY:
                await self._mutate(step, since)
            case Step.OUTPUT:
                await self._read_outputs()
            case Step.INIT:
                self._plugins.provide(self._folder)
                await self._engine_run(step)
                self._plugins.relink(self._folder)
                self._plugins.record(self._folder, self._directory)
            case Step.VALIDATE:
                await self._engine_run(step)
        return 0

    async def _fetch(self) -> None:
        self._files.make()
        found = discovery.require(self._spec.engine, self._start.engine_paths)
        if found.name != "tofu":
            raise Invalid(f"this executor does not run {found.name} yet")
        self._found = found
        self._recorder.fact(EngineUsed(found.name, found.version))
        if self._spec.resume is None or not await self._restore(self._spec.resume):
            await self._fetch_source()
        seed = self._spec.state
        if seed.content is None and seed.size:
            await self._fetch_state()
        else:
            self._states.current = seed.content or None

    async def _fetch_source(self) -> None:
        name = reference.directory_name(AttemptRef(self._spec.job_id, self._spec.attempt))
        folder, resolved = await workspace.fetch(
            self._spec,
            workspace.claim(Path(self._start.workspaces), name, self._directory),
            cache=Path(self._start.cache_directory),
            roots=self._start.source_roots,
            transfer=self._transfer,
        )
        self._recorder.fact(resolved)
        self._recorder.say(f"Source: {resolved.description}")
        if not any(configurations.is_configuration(each.name, self._spec.engine) for each in os.scandir(folder)):
            raise Invalid(configurations.missing(self._spec.source.subdirectory, self._spec.engine))
        self._use(folder)

    async def _restore(self, resume: Resume) -> bool:
        """Go on with an approved plan; False if that cannot be, and it is planned again."""
        try:
            if resume.state_version != self._spec.state.version:
                raise Conflict("the state has changed since")
            place = await save.restore(
                self._found,
                self._files.plan,
                resume,
                job_id=self._spec.job_id,
                root=Path(self._start.workspaces),
                directory=self._directory,
                transfer=self._transfer,
            )
        except (TerracrewError, OSError) as error:
            if self._has_stopped(error):
                raise
            self._recorder.say(
                f"The plan of attempt {resume.attempt} cannot be used here, so it is made again: {error}"
            )
            return False
        self._recorder.say(f"Going on with the plan of attempt {resume.attempt}, which was approved")
        self._use(workspace.inside(place, self._spec.source.subdirectory))
        self._set_environment()
        self._plan_attempt = resume.attempt
        self._reused = _REUSED if self._engine.is_ready() else _REUSED - {Step.INIT}
        return True

    def _use(self, folder: Path) -> None:
        self._folder = folder
        self._engine = Tofu(self._found, EngineLocation(folder, self._files, self._plugins))
        if leftover.remove(self._engine.leftover, workspace.of(self._directory)):
            self._recorder.say(
                f"The source has a file {self._engine.leftover.name}, a state that some engine could not save; it is not used"
            )

    async def _fetch_state(self) -> None:
        answer = await self._transfer.get("state")
        self._states.current = answer.body or None
        self._state_version = int(answer.headers["X-State-Version"])

    def _write_inputs(self) -> None:
        self._engine.prepare(self._spec.inputs, has_our_backend=self._spec.backend == "terracrew")
        self._set_environment()

    def _set_environment(self) -> None:
        secret = http_backend.secret_of(self._granted.credentials.hub)
        is_ours = self._spec.backend == "terracrew"
        access = StateAccess(self._backend.url, http_backend.USER, secret) if is_ours else None
        self._env = self._engine.environment(environment.of_job(self._start, self._granted), access)

    async def _engine_run(self, step: Step, stdout: int | None = None) -> None:
        is_mutating = step in MUTATING
        if not is_mutating:  # a mutating step got its tokens with its permit, and must start at once
            await self._cloud.enter("apply" if step is Step.OUTPUT else "plan")
        process = EngineProcess(
            self._engine.arguments(step, is_destroying=self._spec.is_destroying),
            cwd=self._folder,
            env=self._env | self._cloud.environment(),
            output=self._output.descriptor,
            stdout=stdout,
            ruleset=self._isolation.ruleset(self._found.path),
        )
        self._mutation.is_started = is_mutating
        since = self._recorder.offsets.position

        def react() -> None:
            mode = self._control.stop_mode(is_mutating=is_mutating)
            if mode == "interrupt" and self._control.cancel is None and self._control.ended_by is not None:
                # Whatever sent the signal (a service manager, say) may have sent it to the engine, too, and a second
                # one makes an engine give up its state: it gets ours only if it does not say that it is stopping.
                asyncio.get_running_loop().call_later(_SIGNAL_SECONDS, interrupt_unless_heard)
            elif mode:
                process.stop(mode)

        def interrupt_unless_heard() -> None:
            if not self._engine.has_heard_interrupt(error_summary.tail(self._directory / files.OUTPUT, since)):
                process.stop("interrupt")

        self._states.is_writable = is_mutating
        try:
            async with self._cloud.renewed():
                with self._output.feeding(process), self._control.listening(react):
                    code = await process.wait()
                    self._mutation.exit_code = code
        finally:
            self._states.is_writable = False
            # The engine may have been killed while its last state was still being written to the disk.
            await self._states.settle()
            self._backend.release()
        self._was_killed = self._was_killed or process.was_killed
        await self._output.drain()
        if code:
            raise _EngineFailedError(code)

    async def _mutate(self, step: Step, since: int) -> None:
        """Run the engine, take in what it could not save, and find out whether it ended in order."""
        self._states.has_unsaved = False
        failure: Exception | None = None
        try:
            await self._engine_run(step)
        except Exception as error:  # raised again below: a state that was left is taken in first
            failure = error
        has_left = await self._collect_leftover()
        code = self._mutation.exit_code
        if has_left:
            self._mutation.is_orderly = not self._states.has_unsaved
        elif code is not None and not self._states.has_unsaved:
            printed = error_summary.tail(self._directory / files.OUTPUT, since)
            self._mutation.is_orderly = self._engine.has_ended_in_order(code, printed)
        if failure is not None:
            raise failure

    async def _collect_leftover(self) -> bool:
        """Take in a state that the engine could not hand over; it is as real as any. Returns whether there was one."""
        path = leftover.find(self._engine.leftover, workspace.of(self._directory))
        if path is None:
            return False
        content = leftover.read(path)
        if content is None:
            self._states.has_unsaved = True
            self._recorder.say(leftover.too_large(path.name))
            return True
        self._states.is_writable = True
        try:
            await self._states.write(content, "errored")
        finally:
            self._states.is_writable = False
        self._recorder.say(leftover.collected(path.name, self._states.problem))
        return True

    async def _read_outputs(self) -> None:
        descriptor = os.memfd_create(
            "outputs"
        )  # sensitive ones are among them, so neither the log nor a disk sees this
        try:
            await self._engine_run(Step.OUTPUT, descriptor)
            size = os.fstat(descriptor).st_size
            if size > MAX_OUTPUTS_BYTES:
                raise Invalid(
                    f"the engine printed outputs of {size:,} bytes, and at most {MAX_OUTPUTS_BYTES:,} are kept"
                )
            printed = os.pread(descriptor, size, 0)
        finally:
            os.close(descriptor)
        try:
            outputs = self._engine.outputs(printed)
        except (ValueError, RecursionError) as error:
            raise Invalid(f"the engine printed outputs that cannot be read: {error}") from error
        await self._outputs.record(outputs)

    async def _ask_permission(self, step: Step) -> Result | None:
        """None when the step may start; otherwise what becomes of the job."""
        # Before the question: the permit is good for seconds, and these wait for the disk. What is said until the step
        # starts belongs to the step before it: a job that was never applied has no log of an apply.
        try:
            if leftover.remove(self._engine.leftover, workspace.of(self._directory)):
                self._recorder.say(f"Removed an old {self._engine.leftover.name}, which is not of this {step}")
            leftover.expect(self._directory, self._engine.leftover)
        except (TerracrewError, OSError) as error:
            return self._not_started(step, error, "")
        for _ in range(1 + MAX_REPLANS):
            notice = asyncio.get_running_loop().call_later(
                _NOTICE_SECONDS, self._recorder.say, f"Waiting for permission to {step}"
            )
            try:
                await self._permit.obtain(self._state_version, self._plan_attempt)
                if self._cloud:
                    await self._cloud.enter("apply")
                    # That may have taken long, and a permit is valid for seconds only, so it asks again.
                    await self._permit.obtain(self._state_version, self._plan_attempt)
                return None
            except StateMoved as moved:
                self._recorder.say(f"{moved.message}: planning again")
            except ApprovalNeeded as needed:
                notice.cancel()
                return await self._wait(step, needed.message)
            except (TerracrewError, OSError) as refusal:
                return self._not_started(step, refusal, "")
            finally:
                notice.cancel()
            try:
                await self._fetch_state()
            except TerracrewError as error:
                return self._not_started(step, error, "the current state cannot be had: ")
            self._plan_attempt = None
            if result := await self._run(Step.PLAN):
                return result
        return Result("FAILED", f"{step} was not started: the state moved {1 + MAX_REPLANS} times while it was planned")

    async def _wait(self, step: Step, why: str) -> Result:
        """A person has to look at this plan, and this attempt does not wait for that: it keeps the plan, and ends."""
        self._recorder.say(f"Waiting for approval: {why}. The plan is saved")
        try:
            kept = await save.keep(
                self._found,
                self._files.plan,
                directory=self._directory,
                context=encryption.saved_plan_context(self._spec.job_id, self._spec.attempt),
                key=self._granted.credentials.state_key,
                state_version=self._state_version,
                transfer=self._transfer,
                control=self._control,
                say=self._recorder.say,
            )
        except (TerracrewError, OSError) as error:
            return self._not_started(step, error, "its plan cannot be kept: ")
        if self._control.is_stopping:
            return self._stopped(f"before {step}")
        return Result("WAITING", why, kept=kept)

    def _not_started(self, step: Step, error: TerracrewError | OSError, what: str) -> Result:
        if self._has_stopped(error):
            return self._stopped(f"before {step}")
        return Result("FAILED", f"{step} was not started: {what}{error}")

    def _has_stopped(self, error: TerracrewError | OSError) -> bool:
        """Return whether this is not a failure but the end of an attempt that was asked to stop."""
        if isinstance(error, Superseded):
            self._control.supersede(error.message)
        return self._control.is_stopping

    def _stopped(self, when: str) -> Result:
        # With our own backend the lock is the attempt's and goes with it. Another's may have outlived a kill.
        is_lock_free = self._spec.backend == "terracrew" or not self._was_killed
        if self._control.cancel:
            return Result("CANCELED", f"canceled {when}", is_lock_free)
        reason = self._control.ended_by or self._control.superseded or self._control.refused or ""
        return Result("CANCELED", f"stopped {when}: {reason}", is_lock_free)
