"""The server's diagnostics in the same form as a runner's: one line an entry, whichever library wrote it."""

import asyncio
import logging
import sys
from typing import TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from terracrew import logging as lines

LEVELS = {"uvicorn": "warning"}


def configure(stream: TextIO | None = None) -> None:
    """Send what our own code and libraries say to standard output, as `time level category: message name=value`."""
    lines.configure(LEVELS, stream or sys.stdout)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.format_exc_info, _rendered],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
    )


def _rendered(_: WrappedLogger, __: str, entry: EventDict) -> str:
    """Return the event, its values behind it, and below them the traceback, without the variables of its frames."""
    event, trace = entry.pop("event", ""), entry.pop("exception", "")
    words = " ".join([str(event), *(f"{name}={_quoted(value)}" for name, value in entry.items())])
    # The standard library takes the text for a template where it gets arguments; it gets none here.
    return f"{words}\n{trace}" if trace else words


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or not text.isprintable() else text


def _is_news(record: logging.LogRecord) -> bool:
    """That a stopping server ends what takes longer than its grace is no error of the application."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
