"""Keeps control sequences from the terminal, because much of what the command line prints was written by others.

A module's name, a job's message or an engine's error could otherwise move the cursor, set the window's title or write to the
clipboard. Only colours pass. A pipe gets the unchanged text.
"""

import io
import sys
from typing import TextIO, cast

from terracrew.wording.escapes import TerminalFilter


class GuardedStream(io.TextIOWrapper):
    """A terminal's text stream that filters everything that is written to it."""

    def __init__(self, stream: io.TextIOWrapper) -> None:
        super().__init__(stream.buffer, encoding=stream.encoding, errors="replace", line_buffering=True)
        self.unguarded: TextIO = stream
        """The stream for progress bars, which must move the cursor."""
        self._filter = TerminalFilter(keep_colours=True)

    def write(self, text: str, /) -> int:
        super().write(self._filter.feed(text))
        return len(text)


def guard() -> None:
    """Filter standard output and standard error of this process if they are terminals."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and not isinstance(stream, GuardedStream) and stream.isatty():
            stream.flush()
            setattr(sys, name, GuardedStream(cast("io.TextIOWrapper", stream)))


def unguarded_stderr() -> TextIO:
    return sys.stderr.unguarded if isinstance(sys.stderr, GuardedStream) else cast("TextIO", sys.stderr)
