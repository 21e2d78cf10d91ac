"""Says in one line why an engine failed, from its exit code, its output and the kernel's count of memory kills."""

import os
import re
from pathlib import Path

from terracrew.executor.engines.contract import FailureDetails

_MAX_TAIL_BYTES = 1 << 20
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def tail(output: Path, since: int) -> str:
    """Return the last part of what was printed after the position `since`, without colours."""
    with open(output, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(since, size - _MAX_TAIL_BYTES))
        return _COLOUR.sub("", file.read().decode(errors="replace"))


def failure(code: int, details: FailureDetails, oom_kills: int) -> str:
    """Return how the engine failed. `oom_kills` is the number of processes that the kernel killed because memory ran out.

    The cgroup may be shared with other attempts, so a kill there explains a SIGKILL, and is only mentioned beside an exit.
    """
    is_sigkill = code in (-9, 128 + 9)
    how = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    if is_sigkill and oom_kills:
        return "the engine ran out of memory and was killed (signal 9)"
    if details.memory_error and code not in (0, 1):
        return f"the engine ran out of memory ({how}: {details.memory_error})"
    if details.error:
        how = f"{how}: {details.error}"
    if details.memory_error:
        return f"{how} (memory ran out: {details.memory_error})"
    if oom_kills:
        return f"{how} (memory ran out: the kernel killed {oom_kills} processes of this cgroup during the step)"
    return how
