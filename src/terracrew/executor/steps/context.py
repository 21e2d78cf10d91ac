"""What the steps of one attempt share: the parts of the executor, and the results of earlier steps that later ones need."""

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from terracrew.attempt import files
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.errors import Superseded, TerracrewError
from terracrew.executor.control import Control
from terracrew.executor.delivery.begin import ApplyPermit
from terracrew.executor.delivery.recorder import Recorder
from terracrew.executor.delivery.transfer import Transfer
from terracrew.executor.engines import error_summary
from terracrew.executor.engines.contract import Engine, EngineSession
from terracrew.executor.engines.memory import OomKills
from terracrew.executor.engines.process import EngineProcess, StopDelays
from terracrew.executor.isolation.rules import Isolation
from terracrew.executor.limits import usage
from terracrew.executor.limits.usage import KernelLimits
from terracrew.executor.limits.watch import LimitWatch
from terracrew.executor.output.engine_output import EngineOutput
from terracrew.executor.output.printed_values import PrintedValues
from terracrew.executor.state.http_backend import StateBackend
from terracrew.executor.state.outputs import Outputs, PlanDiffs
from terracrew.executor.state.state_file import StateFile
from terracrew.executor.state.states import States
from terracrew.executor.steps.cloud_tokens import CloudTokens
from terracrew.protocol.events import Result, SourceResolved
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import Step
from terracrew.protocol.start import ExecutorStart
from terracrew.toolchains.discovery import FoundEngine

_SIGNAL_SECONDS = 1.0
"""How long an engine has to print that it received the same signal as its executor."""


class Prepared(msgspec.Struct, frozen=True):
    """What the FETCH step has prepared: the engine, and the source that it runs on."""

    engine: Engine
    found: FoundEngine
    session: EngineSession
    folder: Path
    """The folder of the module, in the workspace."""
    resolved: SourceResolved
    """What the attempt runs: its own source, or that of the saved plan."""
    state_file: StateFile | None
    """The file with the state, if the engine keeps its state in one."""


class CurrentPlan(msgspec.Struct):
    """The plan that was made or restored last."""

    attempt: int | None = None
    """The attempt that made the plan, if this one did not."""
    sha256: str = ""
    """The hash of the plan that was described: the only one that may be applied."""
    json_sha256: str = ""
    """The hash of its JSON; empty if no hook reads it."""
    has_changes: bool = False


class StepContext:
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
        plan_diffs: PlanDiffs,
        permit: ApplyPermit,
        control: Control,
        transfer: Transfer,
        kernel_limits: KernelLimits,
    ) -> None:
        self.start, self.granted, self.spec = start, granted, granted.spec
        self.directory = Path(start.directory)
        self.files = EngineDirectory(Path(start.engine_directory))
        self.recorder, self.output = recorder, output
        self.states, self.backend, self.outputs, self.plan_diffs = states, backend, outputs, plan_diffs
        self.permit, self.control, self.transfer = permit, control, transfer
        self.cloud = CloudTokens(self.files, self.spec, transfer=transfer, recorder=recorder)
        self.stop_delays = StopDelays(*start.interrupt_seconds)
        self.isolation = Isolation(start, self.files)
        self._kernel_limits = kernel_limits
        self.limits = LimitWatch(self.spec.limits, control, recorder.note, kernel_limits)
        self.state_version = self.spec.state.version
        self.oom_kills = OomKills()
        self.mutation = Mutation()
        """The engine's run of the current step."""
        self.was_killed = False
        """Whether an engine of this attempt had to be killed."""
        self.reused = frozenset[Step]()
        """The steps that a saved plan makes unnecessary."""
        self.plan = CurrentPlan()
        self.inputs: Mapping[str, Any] = {}
        """The values of the engine's variables."""
        self.init_name = ""
        """The name under which what `init` makes is kept; empty if it is not kept."""
        self.kept_from: int | None = None
        """The number of the job whose `init` is used, if the workspace is warm."""
        self.printed = PrintedValues()
        """What an engine prints about its plan and its outputs."""
        self.env: dict[str, str] = {}
        """The environment of the engine, and of the module's own hooks."""
        self.added_env: dict[str, str] = {}
        """The part of it that Terracrew adds for the engine: no input has set it."""
        self.prepared: Prepared
        """Set by the FETCH step."""

    @cached_property
    def memory_mb(self) -> int | None:
        """How much memory the attempt can count on; None if that is not known."""
        return usage.share_mb(self.spec.limits.memory_mb, self.start.slots, self._kernel_limits.cgroup)

    @property
    def output_file(self) -> Path:
        return self.directory / files.OUTPUT

    async def wait_for(self, process: EngineProcess, step: Step) -> int:
        """Return the exit code of a program of this step, when it has ended. It is stopped when the job is canceled, reaches a limit,
        or its host shuts down."""
        control, since = self.control, self.recorder.offsets.position

        def react() -> None:
            mode = control.stop_mode(is_mutating=step.is_mutating)
            if mode == "interrupt" and control.cancel is None and control.ended_by is not None:
                # The sender of the signal (a service manager, for example) may have sent it to the engine, too, and a second
                # interrupt makes an engine give up its state. So the engine is interrupted only if it does not print that it
                # is already stopping.
                asyncio.get_running_loop().call_later(_SIGNAL_SECONDS, interrupt_unless_received)
            elif mode:
                process.stop(mode)

        def interrupt_unless_received() -> None:
            if not self.prepared.session.has_received_interrupt(error_summary.tail(self.output_file, since)):
                process.stop("interrupt")

        async with self.cloud.renewed():
            with self.output.feeding(process), control.listening(react):
                code = await process.wait()
        self.mutation.was_killed |= process.was_killed
        return code

    async def obtain_permit(self) -> None:
        """Return when the plan may be applied; that must then start at once."""
        await self.permit.obtain(self.state_version, self.plan.attempt, self.plan.sha256)

    def not_started(self, step: Step, error: TerracrewError | OSError, what: str = "") -> Result:
        """Return the result of a job whose mutating step could not be started."""
        if self.has_stopped(error):
            return self.stopped(f"before {step}")
        return Result("FAILED", f"{step} was not started: {what}{error}")

    def has_stopped(self, error: TerracrewError | OSError) -> bool:
        """Whether this error is not a failure, because a stop was requested."""
        if isinstance(error, Superseded):
            self.control.supersede(error.message)
        return self.control.is_stopping

    def stopped(self, when: str) -> Result:
        if self.control.cancel:
            return Result("CANCELED", f"canceled {when}", self.is_lock_free())
        if reached := self.control.limit:
            return Result(
                "FAILED", f"{reached.text}; it ended {when}", self.is_lock_free(), failure_kind=reached.failure_kind
            )
        reason = self.control.ended_by or self.control.superseded or self.control.refused or ""
        return Result("CANCELED", f"stopped {when}: {reason}", self.is_lock_free())

    def is_lock_free(self, exit_code: int | None = None) -> bool:
        """Return whether no engine of this attempt can have left the lock of the state behind.

        The lock of Terracrew's own backend belongs to the attempt and ends with it. The lock of another backend may outlive an
        engine that was killed, by us or by the system (its exit code is then negative).
        """
        was_killed = self.was_killed or (exit_code is not None and exit_code < 0)
        return self.spec.backend == "terracrew" or not was_killed


class Mutation:
    """One run of the engine. Once started, it counts as cut short until an orderly end is known: its changes may be in no state."""

    def __init__(self) -> None:
        self.is_started = False
        self.exit_code: int | None = None
        self.is_orderly = False
        self.was_killed = False
        """Whether a program of the step, the engine or a hook, had to be killed."""

    @property
    def is_cut_short(self) -> bool:
        return self.is_started and not self.is_orderly
