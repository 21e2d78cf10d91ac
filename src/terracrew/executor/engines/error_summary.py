"""Says in one line why an engine failed, from its exit code, its output and the kernel's count of memory kills, and whether another
try may help."""

import os
import re
from pathlib import Path
from typing import NamedTuple

from terracrew.backoff import jittered
from terracrew.executor.disk_reserve import DISK_FULL_ERRORS
from terracrew.executor.engines.contract import FailureDetails
from terracrew.protocol.events import FailureKind

_MAX_TAIL_BYTES = 1 << 20
_DISK_FULL = re.compile(r"no space left on device|disk quota exceeded", re.IGNORECASE)
_LOCK_ADVICE = "Wait until that run has ended, and run the job again. If that run no longer exists, release its lock with the engine first"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


_NETWORK_ERROR = re.compile(
    r"connection (refused|reset by peer|timed out)|network is unreachable|no route to host|no such host|"
    r"temporary failure in name resolution|server misbehaving|i/o timeout|TLS handshake timeout|Client\.Timeout exceeded|"
    r"context deadline exceeded|unexpected EOF|could not connect to|too many requests|bad gateway|service unavailable|"
    r"gateway time-?out|internal server error|(HTTP|status|status code|code)[ :=]{1,2}(429|50[0234])\b",
    re.IGNORECASE,
)
"""The Go runtime has most of these texts."""


MAX_RETRY_DELAY_SECONDS = 300.0
_ERROR = re.compile(r"error", re.IGNORECASE)


def tail(output: Path, since: int) -> str:
    """Return the last part of what was printed after the position `since`, without colours."""
    with open(output, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(since, size - _MAX_TAIL_BYTES))
        return _COLOUR.sub("", file.read(_MAX_TAIL_BYTES).decode(errors="replace"))


class EngineFailure(NamedTuple):
    """How an engine failed, in words, and the kind of the reason if it has one."""

    text: str
    failure_kind: FailureKind = ""


def failure(code: int, details: FailureDetails, oom_kills: int, printed: str = "") -> EngineFailure:
    """Return how the engine failed. `oom_kills` is the number of processes that the kernel killed because memory ran out.

    The cgroup may be shared with other attempts, so a kill there explains a SIGKILL, and is only mentioned beside an exit.
    """
    is_sigkill = code in (-9, 128 + 9)
    how = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    if is_sigkill and oom_kills:
        return EngineFailure("the engine ran out of memory and was killed (signal 9)", "out_of_memory")
    if details.memory_error and code not in (0, 1):
        return EngineFailure(f"the engine ran out of memory ({how}: {details.memory_error})", "out_of_memory")
    if details.held_lock:
        return EngineFailure(f"the state is {details.held_lock}. {_LOCK_ADVICE}", "state_locked")
    if details.error:
        how = f"{how}: {details.error}"
    if _DISK_FULL.search(printed):
        return EngineFailure(f"the disk of the runner is full ({how})", "disk_full")
    if details.memory_error:
        return EngineFailure(f"{how} (memory ran out: {details.memory_error})", "out_of_memory")
    if oom_kills:
        killed = f"the kernel killed {oom_kills} processes of this cgroup during the step"
        return EngineFailure(f"{how} (memory ran out: {killed})", "out_of_memory")
    return EngineFailure(how)


def failure_of(error: Exception) -> EngineFailure:
    """Return how a step failed that could not run its engine to the end."""
    if isinstance(error, OSError) and error.errno in DISK_FULL_ERRORS:
        return EngineFailure(f"the disk of the runner is full ({error})", "disk_full")
    return EngineFailure(str(error))


def is_network_error(text: str, start: int = 0) -> bool:
    return _NETWORK_ERROR.search(text, start) is not None


def is_transient(printed: str) -> bool:
    """Return whether the engine says that another machine is away. Only what follows its first error is searched."""
    first = _ERROR.search(printed)
    return first is not None and is_network_error(printed, first.start())


def retry_delay_seconds(first: float, retry: int) -> float:
    """Return how long to wait before this retry; the first one is 1. The delay doubles, with a random part."""
    return round(jittered(min(first * 2 ** (retry - 1), MAX_RETRY_DELAY_SECONDS), 0.2), 1)
