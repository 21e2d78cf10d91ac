"""The server's own log, in the same form as a runner's: one line for each entry, regardless of which library wrote it."""

import asyncio
import logging
import sys
from typing import TextIO

from terracrew import logging as lines

LEVELS = {"uvicorn": "warning"}


def configure(stream: TextIO | None = None) -> None:
    """Write the log entries of Terracrew and its libraries to standard output, as `time level category: message name=value`."""
    lines.configure(LEVELS, stream or sys.stdout)
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether to log an error. A stopping server cancels slow requests, which is not an application error."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
