"""The start of an executor process, which is the same for every dispatcher: it takes the attempt's directory and logs into it.

That the attempt has begun must be durable before it starts a program or says anything to the server. Otherwise the runner would hand
it back after a power cut, as if nothing had happened. Syncs take as long as all other work before the engine, so both are done at once.
"""

import _thread
import errno
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from terracrew.attempt import directories, executor_log, exit_codes, ownership
from terracrew.attempt.process_record import ProcessRecord
from terracrew.protocol.start import ExecutorStart


class NotDurableError(BaseException):
    """The start of the attempt could not be made durable, so the attempt must not go on. No handler of its errors catches this."""


class DurableStart:
    """Syncs an attempt's directory in a thread."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._error: Exception | None = None
        self._ended = _thread.allocate_lock()
        """Held until everything is durable, or cannot be."""
        self._ended.acquire()
        _thread.start_new_thread(self._sync, ())  # one of `threading` would make this thread wait until it runs

    def wait(self) -> None:
        """Return when everything in the directory is durable. Raises NotDurableError."""
        with self._ended:
            pass
        if self._error is not None:
            raise NotDurableError(f"{self._directory} cannot be synced: {self._error}") from self._error

    def _sync(self) -> None:
        try:
            directories.sync(self._directory)
        except Exception as error:  # whatever it is, nothing says that the start is durable
            self._error = error
        finally:
            self._ended.release()


def run_in_directory(
    start: ExecutorStart, process: ProcessRecord, work: Callable[[ExecutorStart, DurableStart], int]
) -> int:
    """Lock and sign the attempt's directory, send this process's output to its log, then do the work.

    Returns the exit code: that of the work, or `IN_USE` if the attempt is not for this process to run.
    """
    directory = Path(start.directory)
    lock = ownership.take(directory, msgspec.structs.replace(process, is_salvage=start.is_salvage))
    if lock is None:
        return exit_codes.IN_USE
    os.chdir(directory)
    executor_log.redirect_output(directory)
    return work(start, DurableStart(directory))


def exit_code_of(work: Callable[[], int]) -> int:
    """Do the work and return its exit code, or `CRASHED` with a traceback on standard error if it raises anything."""
    try:
        return work()
    except NotDurableError as error:
        print(f"an executor cannot start: {error}", file=sys.stderr)
        return exit_codes.NOT_DURABLE
    except OSError as error:
        if error.errno == errno.ENOSPC:  # the runner starts the delivery again until the disk has space
            print(f"an executor cannot start: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
    except BaseException:
        traceback.print_exc()
    return exit_codes.CRASHED
