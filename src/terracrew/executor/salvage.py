"""Delivers what a dead executor left: its outbox, output that it had not read, a state that the engine could not save.

The runner has made sure that every process of the attempt has ended. The salvage runs nothing and records no result.
"""

import asyncio
import hashlib
import time
from pathlib import Path

import msgspec

from terracrew.attempt import delivered, exit_codes, files, ownership
from terracrew.attempt import record as attempt_record
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor import startup
from terracrew.executor.delivery.delivery import AttemptDelivery
from terracrew.executor.delivery.large_states import PLAIN
from terracrew.executor.engines import error_summary
from terracrew.executor.output.engine_output import EngineOutput
from terracrew.executor.startup import supervise
from terracrew.executor.state import identity as identities
from terracrew.executor.state import leftover, states
from terracrew.executor.steps import cloud_tokens
from terracrew.masking import names
from terracrew.protocol import events
from terracrew.protocol.events import Kind, OutputMissing
from terracrew.protocol.spec import Step
from terracrew.protocol.start import ExecutorStart


async def run(start: ExecutorStart) -> int:
    directory = Path(start.directory)
    if delivered.is_done(directory):
        return exit_codes.DELIVERED
    kept = attempt_record.read(directory)
    # The module's own secrets were only in the memory of the executor. The server knows them, and masks them.
    tokens = cloud_tokens.left(EngineDirectory(Path(start.engine_directory)))
    secrets = [*kept.secrets, *names.secrets_of(start.environment), *tokens]
    parts = AttemptDelivery(
        directory, msgspec.structs.replace(kept, secrets=secrets), start.log_stream, is_salvage=True
    )
    startup.mask_output(parts.recorder.redactor)
    async with asyncio.TaskGroup() as group:
        shipping = group.create_task(supervise("the shipper", parts.shipper.run))
        # First the server says what it has: if the machine crashed, that may be more than the disk still has.
        stopping = group.create_task(parts.control.stopping())
        welcomed = group.create_task(parts.shipper.welcomed.wait())
        await asyncio.wait({welcomed, stopping}, return_when=asyncio.FIRST_COMPLETED)
        parts.recorder.step, has_result = _end_of(parts)
        if parts.control.refused is None and not parts.shipper.is_complete and not has_result:
            is_readable = parts.recorder.offsets.is_known and not parts.outbox.has_lost_events
            if is_readable:
                await _read_on(parts)
            if not is_readable or (parts.outbox.last and ownership.has_machine_crashed(directory)):
                parts.recorder.say("The machine crashed; some output after this line may be missing")
                parts.recorder.fact(OutputMissing())
            _announce_states(parts)
            _collect_state(parts, EngineDirectory(Path(start.engine_directory)))
        code = await parts.finish()
        for task in (shipping, stopping, welcomed):
            task.cancel()
    return code


async def _read_on(parts: AttemptDelivery) -> None:
    """Record the output that the engine printed after its executor died."""
    if not (parts.directory / files.OUTPUT).exists():
        return
    output = EngineOutput(parts.directory / files.OUTPUT, parts.recorder)
    await output.drain()
    output.close()


def _end_of(parts: AttemptDelivery) -> tuple[Step, bool]:
    """Return the step of the last record, and whether the result was recorded: nothing may follow a result.

    Records without content replace those that were lost in a crash of the machine, and do not show the step.
    """
    step, has_result = Step.FETCH, False
    for _, record in parts.outbox.records():
        step = record.step_name if record.payload else step
        has_result = has_result or (record.kind == Kind.FACT and b'"type":"result"' in record.payload[:32])
    return step, has_result


def _announce_states(parts: AttemptDelivery) -> None:
    """Deliver a state that is complete on the disk although its event was lost in the crash."""
    for found in parts.large_states.unannounced:
        parts.large_states.announce(found, parts.outbox.last + 1)
        parts.recorder.state(found.event)
        parts.recorder.say("The crash came while the engine saved a state; it is whole, and was delivered")
    for path in parts.large_states.unusable:
        size = path.stat().st_size
        parts.recorder.say(
            f"The crash came while the engine saved a state; the {size:,} bytes on the disk are not whole"
        )


def _collect_state(parts: AttemptDelivery, engine_files: EngineDirectory) -> None:
    """Upload a state in plain text over the authenticated connection, because its key is gone."""
    if (found := leftover.find_after_crash(parts.directory, engine_files)) is None:
        return
    path, place, expected = found
    content = leftover.read(path, place)
    if content is None:  # nothing else shows that the change has ended, so the module is in doubt
        parts.recorder.say(leftover.too_large(path.name))
        return
    known = {events.state_of(record)[0].sha256 for _, record in parts.outbox.records() if record.kind == Kind.STATE}
    sha256 = hashlib.sha256(content).hexdigest()
    if sha256 in known or sha256 == expected.known_sha256:
        return
    identity, problem = identities.read_leftover(expected.engine, content, is_kept_here=expected.is_kept_here)
    # An errored state tells the server that the engine has ended its change. One that was being changed does not, and neither does
    # one of an engine that does not know how all of its changes ended.
    is_unfinished = identity.is_unfinished or (not problem and _has_lost_changes(parts, expected.engine))
    origin = "engine" if is_unfinished else "errored"
    fact = states.fact_of(sha256, content, identity, problem, origin, is_inline=False)
    parts.large_states.write(content)
    parts.large_states.place(parts.outbox.last + 1, PLAIN)
    parts.recorder.state(events.pack_state(fact, b"", parts.recorder.step, time.time()))
    parts.recorder.say(leftover.collected(path.name, problem, is_unfinished=is_unfinished))


def _has_lost_changes(parts: AttemptDelivery, engine: str) -> bool:
    output = parts.directory / files.OUTPUT
    return output.exists() and identities.has_lost_changes(engine, error_summary.tail(output, 0))
