"""The executor: a process that runs exactly one attempt of one job and reports all of it before it ends.

The steps do not wait for the connection to the server, which is made while they run.
"""

import asyncio
import base64
import contextlib
import importlib
import logging
import signal
from collections.abc import Coroutine, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import uvloop

from terracrew import plugins
from terracrew.attempt import encryption, files, record
from terracrew.attempt.encryption import AttemptCipher
from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.attempt.process_record import ProcessRecord
from terracrew.attempt.record import AttemptRecord
from terracrew.errors import Conflict, Invalid
from terracrew.executor import salvage, startup
from terracrew.executor.delivery.delivery import AttemptDelivery
from terracrew.executor.engines import engine_user, process
from terracrew.executor.engines.engine_user import EngineUser
from terracrew.executor.limits.usage import KernelLimits
from terracrew.executor.output.engine_output import EngineOutput
from terracrew.executor.startup import supervise
from terracrew.executor.state.http_backend import StateBackend
from terracrew.executor.state.outputs import Outputs, PlanDiffs
from terracrew.executor.state.states import States
from terracrew.executor.steps.context import StepContext
from terracrew.executor.steps.sequence import Steps
from terracrew.masking import names
from terracrew.protocol.events import Result
from terracrew.protocol.messages import Granted
from terracrew.protocol.spec import GitSource
from terracrew.protocol.start import ExecutorStart
from terracrew.toolchains import discovery

SIGTERM_REASON = "the executor was told to end by SIGTERM (the host is shutting down, or its service was stopped)"
_logger = logging.getLogger("terracrew.executor")


def warm(engine_paths: Sequence[str]) -> None:
    """Do the work of a first use ahead of time, so that executors that are forked later need not do it."""
    discovery.find_all(engine_paths)
    preload()


@cache
def preload() -> None:
    """Import everything that an attempt uses. This starts no program and no thread."""
    plugins.preload(plugins.ENGINES)
    plugins.preload(plugins.SOURCES)
    importlib.import_module("encodings.idna")  # Python itself imports it to look up a host


def run(start: ExecutorStart, process: ProcessRecord) -> int:
    """Run the attempt, or deliver what a dead executor left of it. Returns the exit code of this process."""
    return startup.run_in_directory(start, process, partial(_run_attempt, cgroup=process.cgroup))


def _run_attempt(start: ExecutorStart, cgroup: str) -> int:
    work = salvage.run(start) if start.is_salvage else _attempt(start, cgroup)
    loop = uvloop.new_event_loop()
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


def _attempt(start: ExecutorStart, cgroup: str) -> Coroutine[Any, Any, int]:
    """Create all parts of an attempt, and return what runs it."""
    if (granted := start.granted) is None:
        raise Invalid("the executor was started without a job")
    spec, credentials, directory = granted.spec, granted.credentials, Path(start.directory)
    if (account := start.engine_account) is not None:
        engine_files = EngineDirectory(Path(start.engine_directory))
        engine_user.choose(EngineUser(account.uid, account.gid, directory, engine_files))
    if (directory / files.OUTBOX).exists():
        raise Conflict(f"{directory} has been used already: an attempt can run only once")
    parts = AttemptDelivery(directory, _record(start, granted), start.log_stream)
    startup.mask_output(parts.recorder.redactor)
    output = EngineOutput(directory / files.OUTPUT, parts.recorder)
    cipher = AttemptCipher(credentials.state_key, spec.job_id, spec.attempt)
    is_ours = spec.backend == "terracrew"
    states = States(parts.large_states, parts.recorder, cipher, engine=spec.engine, is_kept_here=is_ours)
    backend = StateBackend(
        states,
        encryption.backend_secret(credentials.hub),
        parts.shipper.deliver if start.waits_for_server else None,
    )
    for line in start.notes:
        parts.recorder.say(line)
    context = StepContext(
        start,
        granted,
        recorder=parts.recorder,
        output=output,
        states=states,
        backend=backend,
        outputs=Outputs(parts.large_states, parts.recorder, cipher),
        plan_diffs=PlanDiffs(parts.large_states, parts.recorder, cipher),
        permit=parts.permit,
        control=parts.control,
        transfer=parts.transfer,
        kernel_limits=KernelLimits(cgroup),
    )
    process.adopt_orphans()
    return _run(parts, context)


async def _run(parts: AttemptDelivery, context: StepContext) -> int:
    output = context.output
    async with asyncio.TaskGroup() as group:
        working = group.create_task(_work(Steps(context), parts))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _end, parts)
        loops = [
            group.create_task(supervise("the state backend", context.backend.serve)),
            group.create_task(supervise("the shipper", parts.shipper.run)),
        ]
        limits = group.create_task(supervise("the watch of limits", context.limits.run))
        output.follow()
        await working
        limits.cancel()  # what is left to do is to deliver, and no limit applies to that
        code = await parts.finish()
        for loop in loops:
            loop.cancel()
    output.close()
    return code


def _end(parts: AttemptDelivery) -> None:
    if parts.control.ended_by is None:
        parts.recorder.note(f"Stopping: {SIGTERM_REASON}. A running engine is asked to stop and to save its state")
    parts.control.end(SIGTERM_REASON)


async def _work(steps: Steps, parts: AttemptDelivery) -> None:
    """Run the steps and record the result at once, so that it leaves in one frame with the end of the last step."""
    try:
        result = await steps.run()
    except Exception as error:
        _logger.exception("the attempt failed")
        result = Result("FAILED", f"the executor failed: {type(error).__name__}: {error}")
    # An attempt that stopped only because of the server's version gets no result. An updated runner delivers what is
    # left of it, and reports that it is gone.
    if not (result.status == "CANCELED" and parts.control.is_refused_for_now):
        parts.recorder.fact(result)


def _record(start: ExecutorStart, granted: Granted) -> AttemptRecord:
    """Return what the delivery needs. The secrets that the runner recorded on disk are masked, too."""
    spec, credentials = granted.spec, granted.credentials
    keys = [credentials.state_key] + ([spec.resume.key] if spec.resume else [])
    keys += [credentials.module_key] if credentials.module_key else []
    secrets = [credentials.api, *(base64.b64encode(key).decode() for key in keys)]
    secrets += names.parts_of(spec.secrets) + names.secrets_of({file.path: file.content for file in spec.files})
    secrets += names.secrets_of(start.environment) + names.secrets_of(spec.environment) + names.secrets_of(spec.inputs)
    secrets += [each for place in spec.hook_environments for each in names.secrets_of(place.variables)]
    secrets += [each for flags in spec.flags.values() for each in names.secrets_of_flags(flags)]
    if isinstance(spec.source, GitSource) and (credential := spec.environment.get(spec.source.credential)):
        secrets.append(credential.strip())
    with contextlib.suppress(FileNotFoundError):
        secrets += record.read(Path(start.directory)).secrets
    return AttemptRecord(
        spec.job_id, spec.attempt, start.server_url, credentials.hub, secrets, spec.module_path, credentials.receipt
    )
