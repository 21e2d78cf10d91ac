"""The executor's own log in the attempt's directory, for the people who operate the machine."""

import os
from pathlib import Path

from terracrew.attempt import files

_TAIL_BYTES = 4096


def redirect_output(directory: Path) -> None:
    """Send standard output and standard error of this process to the log."""
    log = os.open(directory / files.LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)


def last_line(directory: Path) -> str:
    """Return the last line of the log that is not empty."""
    try:
        lines = (directory / files.LOG).read_bytes()[-_TAIL_BYTES:].decode(errors="replace").split("\n")
    except FileNotFoundError:
        return ""
    return next((line for line in reversed(lines) if line.strip()), "")
