"""An executor as a process: it takes the attempt's directory, logs into it without secrets, and keeps its background loops alive.

That the attempt has begun must be durable before it starts a program or says anything to the server. Otherwise the runner would hand
it back after a power cut, as if nothing had happened.
"""

import asyncio
import errno
import io
import logging
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from terracrew.attempt import directories, exit_codes, files, ownership
from terracrew.attempt.process_record import ProcessRecord
from terracrew.masking.redactor import Redactor
from terracrew.protocol.start import ExecutorStart

_PAUSE_SECONDS = 1.0
_logger = logging.getLogger("terracrew.executor")


def run_in_directory(start: ExecutorStart, process: ProcessRecord, work: Callable[[ExecutorStart], int]) -> int:
    """Lock, sign and sync the attempt's directory, send this process's output to its log, then do the work.

    Returns the exit code: that of the work, `IN_USE` if the attempt is not for this process to run, or `NOT_DURABLE`.
    """
    directory = Path(start.directory)
    lock = ownership.take(directory, msgspec.structs.replace(process, is_salvage=start.is_salvage))
    if lock is None:
        return exit_codes.IN_USE
    os.chdir(directory)
    _redirect_output(directory)
    try:
        directories.sync(directory)
    except OSError as error:
        print(f"an executor cannot start: {directory} cannot be synced: {error}", file=sys.stderr)
        return exit_codes.NOT_DURABLE
    return work(start)


def _redirect_output(directory: Path) -> None:
    """Send standard output and standard error of this process to the attempt's log."""
    log = os.open(directory / files.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def exit_code_of(work: Callable[[], int]) -> int:
    """Do the work and return its exit code, or `CRASHED` with a traceback on standard error if it raises anything."""
    try:
        return work()
    except OSError as error:
        if error.errno == errno.ENOSPC:  # the runner starts the delivery again until the disk has space
            print(f"an executor cannot start: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    return exit_codes.CRASHED


class MaskedStream(io.TextIOBase):
    """Standard error without secrets. It is written without a buffer, so that nothing is lost if the process is killed."""

    def __init__(self, redactor: Redactor, descriptor: int = 2) -> None:
        self._redactor, self._descriptor = redactor, descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def write(self, text: str, /) -> int:
        left = memoryview(self._redactor.mask_text(text).encode(errors="backslashreplace"))
        while left:
            left = left[os.write(self._descriptor, left) :]
        return len(text)


def mask_output(redactor: Redactor) -> None:
    """Mask everything that this process prints from now on. The redactor may learn of further secrets later."""
    sys.stdout = sys.stderr = MaskedStream(redactor)


async def supervise(name: str, loop: Callable[[], Awaitable[None]]) -> None:
    """Run the loop until it returns, and start it again whenever it fails."""
    while True:
        try:
            return await loop()
        except Exception:
            _logger.exception("%s failed and is started again", name)
            await asyncio.sleep(_PAUSE_SECONDS)
