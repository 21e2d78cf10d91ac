"""Waits for a program of a step, and stops it when the job is canceled, reaches a limit, or its host shuts down."""

import asyncio

from terracrew.executor.engines import error_summary
from terracrew.executor.engines.process import EngineProcess
from terracrew.executor.steps.context import StepContext
from terracrew.protocol.spec import Step

_SIGNAL_SECONDS = 1.0
"""How long an engine has to print that it received the same signal as its executor."""


async def wait(context: StepContext, step: Step, process: EngineProcess) -> int:
    """Return the exit code of a program of this step, when it has ended."""
    control, since = context.control, context.recorder.offsets.position

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
        if not context.prepared.session.has_received_interrupt(error_summary.tail(context.output_file, since)):
            process.stop("interrupt")

    async with context.cloud.renewed():
        with context.output.feeding(process), control.listening(react):
            code = await process.wait()
    context.mutation.was_killed |= process.was_killed
    return code
