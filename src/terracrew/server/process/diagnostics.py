"""The server's own log, in the same form as a runner's: one line for each entry, regardless of which library wrote it."""

import asyncio
import logging
import sys
from collections.abc import Mapping
from typing import TextIO

from terracrew import logging as lines

LEVELS = {"uvicorn": "warning"}
_RUNNER = "terracrew.runner"


def configure(stream: TextIO | None = None) -> None:
    """Write the log entries of Terracrew and its libraries to standard output, as `time level category: message name=value`."""
    lines.configure(LEVELS, stream or sys.stdout)
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def configure_builtin_runner(levels: Mapping[str, str]) -> None:
    """Apply the log levels of the built-in runner to its own entries. The other entries of the process are the server's."""
    lines.configure(LEVELS | _of_runner(levels), sys.stdout)


def _of_runner(levels: Mapping[str, str]) -> dict[str, str]:
    """Return the levels of the runner's categories; its `default` and shorter categories apply to all of them."""
    given = {name.lower(): level for name, level in levels.items()}
    found = {name: level for name, level in given.items() if name.startswith(_RUNNER)}
    shorter = [name for name in given if _RUNNER.startswith(name)]
    general = given.get(max(shorter, key=len, default=lines.DEFAULT))
    return found if general is None else {_RUNNER: general} | found


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether to log an error. A stopping server cancels slow requests, which is not an application error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
