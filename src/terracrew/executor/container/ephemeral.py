"""Runs an attempt in a container whose files are lost when it ends: a pod, or a task of a container service.

Nobody can start another container on what a dead executor left, so the first process does what a runner does elsewhere: when
every process of the attempt has ended and something is undelivered, it forks executors that only deliver (`executor/salvage.py`).
It reports the end in a file of the container, and by its exit code (`ends`).
"""

import base64
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from terracrew.attempt import delivered, exit_codes, files, record
from terracrew.backoff import Backoff
from terracrew.errors import Invalid, TerracrewError
from terracrew.executor.container import ends, executor_process, shared_cache, ticket
from terracrew.executor.container.ends import ContainerEnd
from terracrew.executor.container.reaper import ContainerReaper
from terracrew.executor.container.ticket import TicketRefused
from terracrew.protocol.start import ExecutorStart

MAX_SALVAGES = 6
TMP = Path("/tmp")  # noqa: S108  (the container's own)
_TMP_MODE = 0o1777
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 30.0
"""Between deliveries that fail by themselves. One that waits for a server that does not answer goes on waiting."""


def run(place: str, report: Path | None) -> int:
    """Run the attempt whose start is in this place. Returns the exit code of the container."""
    try:
        start = _prepare(place)
    except TicketRefused as error:
        print(error.message)
        return exit_codes.TICKET_REFUSED
    except Exception as error:  # nothing has begun, and whoever watches the container is told why
        traceback.print_exc()
        said = f"{error}" if isinstance(error, TerracrewError) else f"{type(error).__name__}: {error}"
        return ends.report(ContainerEnd(exit_codes.NOT_BEGUN, last_line=said[: ends.MAX_LINE_CHARACTERS]), report)
    try:
        executions = _Executions()
        end = msgspec.structs.replace(follow(start, executions.run), was_interrupted=executions.was_interrupted)
        if not executions.was_interrupted:
            shared_cache.fill(start)
    except Exception:  # an executor may have begun, so this must not look like an interpreter that could not start
        traceback.print_exc()
        return exit_codes.ABANDONED
    return ends.report(end, report)


def follow(
    start: ExecutorStart,
    execute: Callable[[ExecutorStart], int],
    pause: Callable[[float], None] = time.sleep,
) -> ContainerEnd:
    """Run the attempt, and deliver what its executor left. `execute` returns an executor's exit code after its last process."""
    directory = Path(start.directory)
    code: int | None = None
    if not (directory / files.PID).exists():  # otherwise the container runtime has started this container again
        code = execute(start)
        if not (directory / files.PID).exists():
            return ends.of(directory, exit_codes.NOT_BEGUN)
    delays = Backoff(FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
    salvage = msgspec.structs.replace(start, granted=None, is_salvage=True, notes=[])
    for number in range(MAX_SALVAGES):
        if delivered.is_done(directory) or (directory / files.REFUSED).exists():
            break
        if number:
            pause(delays.next())
        execute(salvage)
    return ends.of(directory, code)


class _Executions:
    """Runs the executors of this container, one after the other."""

    def __init__(self) -> None:
        self.was_interrupted = False

    def run(self, start: ExecutorStart) -> int:
        """Return an executor's exit code after its last process."""
        executor = executor_process.fork(start)
        reaper = ContainerReaper(executor, start.interrupt_seconds, passes_on=not start.is_salvage)
        code = reaper.reap()
        self.was_interrupted = self.was_interrupted or reaper.is_stopping
        return code


def _prepare(place: str) -> ExecutorStart:
    start = executor_process.read(_read(place))
    if start.granted is None:
        raise Invalid("the start has no job")
    executor_process.make_directories(start)
    if TMP.stat().st_uid == 0:
        TMP.chmod(_TMP_MODE)  # an empty directory of a pod has no sticky bit
    directory = Path(start.directory)
    if not (directory / files.RECORD).exists():
        record.write(directory, record.for_grant(start.granted, start.server_url))
        executor_process.give_to_executor(directory)
    return start


def _read(place: str) -> bytes:
    """Return the start from `file:PATH`, from `variable:NAME`, where it is encoded as base64, or with a ticket from `ticket:URL`."""
    kind, _, name = place.partition(":")
    if kind == "ticket":
        return ticket.fetch(name)
    if kind == "file":
        return Path(name).read_bytes()
    if kind != "variable" or name not in os.environ:
        raise Invalid(
            f"{place!r} is not a place of a start: file:PATH, ticket:URL, or variable:NAME of a variable that is set"
        )
    try:
        return base64.b64decode(os.environ.pop(name), validate=True)
    except ValueError:
        raise Invalid(f"the variable {name} is not base64") from None
