"""Diagnostics of a long-lived process on standard output. The longest matching category decides the level."""

import logging
import sys
import time
from collections.abc import Mapping
from typing import TextIO

OFF = logging.CRITICAL + 10
TRACE = 5
LEVELS = {
    "trace": TRACE,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": OFF,
}
DEFAULT = "default"
# Libraries log every frame and every cycle at levels that this project uses for important events.
QUIET = {DEFAULT: "information", "asyncio": "warning", "websockets": "warning"}
LOWEST = {"uvicorn": logging.INFO, "websockets": logging.INFO}
"""No setting makes these libraries more talkative: at lower levels they log headers and frames, which contain credentials."""


class EventLogger:
    """A logger of the standard library whose entries have values: `info("loop waits", loop="reaper")`.

    An entry reads `loop waits loop=reaper`. Values are quoted where that is needed to tell them apart, so that text from
    outside cannot imitate another value or a second entry.
    """

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def info(self, event: str, **values: object) -> None:
        self._log(logging.INFO, event, values)

    def warning(self, event: str, *, exc_info: BaseException | None = None, **values: object) -> None:
        self._log(logging.WARNING, event, values, exc_info)

    def error(self, event: str, *, exc_info: BaseException | None = None, **values: object) -> None:
        self._log(logging.ERROR, event, values, exc_info)

    def exception(self, event: str, **values: object) -> None:
        """Log an error with the exception that is being handled."""
        self._log(logging.ERROR, event, values, sys.exception())

    def _log(self, level: int, event: str, values: Mapping[str, object], error: BaseException | None = None) -> None:
        if self._logger.isEnabledFor(level):
            text = " ".join([event, *(f"{name}={_quoted(value)}" for name, value in values.items())])
            # A logger formats its message only if it gets arguments, so a % in the text is harmless.
            self._logger.log(level, text, exc_info=error)


def get_logger(name: str) -> EventLogger:
    return EventLogger(name)


def _quoted(value: object) -> str:
    text = str(value)
    return repr(text) if not text or " " in text or not text.isprintable() else text


class Categories(logging.Filter):
    """Passes an entry if the longest category that its logger's name starts with allows its level."""

    def __init__(self, levels: Mapping[str, str]) -> None:
        super().__init__()
        self._chosen = {name.lower(): LEVELS[level.lower()] for name, level in (QUIET | dict(levels)).items()}
        self._known: dict[str, int] = {}

    @property
    def lowest(self) -> int:
        return min(self._chosen.values())

    def level_of(self, name: str) -> int:
        """Return the lowest level that this logger's entries need to pass."""
        if name not in self._known:
            fitting = [category for category in self._chosen if name.lower().startswith(category)]
            chosen = self._chosen[max(fitting, key=len, default=DEFAULT)]
            self._known[name] = max(
                [chosen, *(lowest for library, lowest in LOWEST.items() if name.startswith(library))]
            )
        return self._known[name]

    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno >= self.level_of(record.name)


class _Lines(logging.Formatter):
    converter = time.gmtime
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"


def configure(levels: Mapping[str, str], stream: TextIO = sys.stdout) -> None:
    """Send every logger's entries to the stream; called again, it replaces the levels and the stream."""
    logging.addLevelName(TRACE, "TRACE")
    _leave_out_unused_facts()
    categories = Categories(levels)
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Lines("%(asctime)s %(levelname)-8s %(name)s: %(message)s"))
    handler.addFilter(categories)
    root = logging.getLogger()
    for old in [each for each in root.handlers if any(isinstance(one, Categories) for one in each.filters)]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(categories.lowest)


def _leave_out_unused_facts() -> None:
    """Let entries not look up their thread, process and line of code, which no line shows. The manual of `logging` says how."""
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    setattr(logging, "_srcfile", None)  # noqa: B010 - a type checker would refuse the assignment
