"""Finds, in what an engine printed before it failed, the sentence that tells a person why."""

import os
import re
from pathlib import Path

_TAIL_BYTES = 1 << 20
_MAX_SUMMARY_CHARACTERS = 500
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(
    r"^[│|]?[ ]?Error: (?P<what>.+)$(?:\n[│|]?[ ]*)?(?:\n[│|]?[ ]*on (?P<file>\S+) line (?P<line>\d+))?", re.M
)
_OUT_OF_MEMORY = re.compile(
    r"^(?:[│|] ?)?(fatal error: .*(?:cannot allocate memory|out of memory).*|runtime: out of memory.*)$", re.M
)
"""What the Go runtime prints when it gets no memory; tens of kilobytes of goroutine traces follow it."""


def tail(output: Path, since: int) -> str:
    """Return the last part of what was printed from `since` on, without colours."""
    with open(output, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(since, size - _TAIL_BYTES))
        return _COLOUR.sub("", file.read().decode(errors="replace"))


def first_error(text: str) -> str:
    """Return the first error in the text, with its place; '' where there is none.

    From the terminal's text and not from JSON, since it is the same in every engine and step.
    """
    if not (match := _ERROR.search(text)):
        return ""
    what = match["what"].strip()[:_MAX_SUMMARY_CHARACTERS]
    return f"{what} ({match['file']}:{match['line']})" if match["file"] else what


def out_of_memory(text: str) -> str:
    """Return the line with which a Go program ended because it got no memory; '' where there is none."""
    match = _OUT_OF_MEMORY.search(text)
    return match[1].strip()[:_MAX_SUMMARY_CHARACTERS] if match else ""


def failure(code: int, text: str, oom_kills: int) -> str:
    """Return how the engine failed, from its exit code, its output, and the number of processes that the kernel killed for memory.

    The cgroup may be shared with other attempts, so a kill there explains a SIGKILL, and is only mentioned beside an exit.
    """
    is_sigkill = code in (-9, 128 + 9)
    how = f"exit code {code}" if code >= 0 else f"ended by signal {-code}"
    line = out_of_memory(text)
    if is_sigkill and oom_kills:
        return "the engine ran out of memory and was killed (signal 9)"
    if line and code not in (0, 1):
        return f"the engine ran out of memory ({how}: {line})"
    if reason := first_error(text):
        how = f"{how}: {reason}"
    if line:
        return f"{how} (memory ran out: {line})"
    if oom_kills:
        return f"{how} (memory ran out: the kernel killed {oom_kills} processes of this cgroup during the step)"
    return how
