"""Keeps control sequences away from the terminal: much of what the command line prints was written by others.

A module's name, a job's message or an engine's error could otherwise move the cursor, set the window's title or write to the
clipboard. Only colours pass. A pipe gets everything as it is.
"""

import io
import sys
from typing import TextIO, cast

from terracrew.escapes import TerminalFilter


class GuardedStream(io.TextIOWrapper):
    """A terminal's text stream. Whatever is written to it, by whichever command, passes the filter."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(stream.buffer, encoding=stream.encoding, errors="replace", line_buffering=True)
        self.unguarded: TextIO = stream
        """For what must move the cursor: progress bars of our own."""
        self._filter = TerminalFilter(keep_colours=True)

    def write(self, text: str, /) -> int:
        super().write(self._filter.feed(text))
        return len(text)


def guard() -> None:
    """Guard standard output and standard error of this process, where they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, GuardedStream) and stream.isatty():
            stream.flush()
            setattr(sys, name, GuardedStream(cast("io.TextIOWrapper", stream)))


def unguarded_stderr() -> TextIO:
    return sys.stderr.unguarded if isinstance(sys.stderr, GuardedStream) else cast("TextIO", sys.stderr)
