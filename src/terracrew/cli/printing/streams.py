"""Streams that print what others have written: they pass colours and remove all other control sequences.

A module's name, a job's message or an engine's error could otherwise move the cursor, set the window's title or write to the
clipboard. A pipe gets the unchanged text.
"""

import io
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, BinaryIO, TextIO, cast

from terracrew.wording.escapes import TerminalBytesFilter, TerminalFilter


@contextmanager
def log_output(colour: bool | None) -> Generator[Callable[[str], None]]:
    """Yield a function that prints pieces of a log, which may be cut anywhere.

    Colours are kept on a terminal, or if they were asked for. All other control sequences are removed.
    """
    out = sys.stdout
    shown = TerminalFilter(keep_colours=_wants_colour(colour))

    def write(text: str) -> None:
        out.write(shown.feed(text))
        out.flush()

    try:
        yield write
    finally:
        out.write(shown.finish())
        out.flush()


@contextmanager
def text_output(colour: bool | None) -> Generator[BinaryIO]:
    """Yield a stream that prints the bytes of a log, filtered like `log_output`."""
    filtered = _FilteredStream(sys.stdout.buffer, TerminalBytesFilter(keep_colours=_wants_colour(colour)))
    try:
        yield filtered
    finally:
        filtered.finish()


@contextmanager
def document_output() -> Generator[BinaryIO]:
    """Yield standard output for a document: unchanged in a pipe, without control sequences on a terminal."""
    if not sys.stdout.isatty():
        yield sys.stdout.buffer
        return
    filtered = _FilteredStream(sys.stdout.buffer, TerminalBytesFilter(keep_colours=False))
    try:
        yield filtered
    finally:
        filtered.finish()


def _wants_colour(colour: bool | None) -> bool:
    return sys.stdout.isatty() if colour is None else colour


class _FilteredStream(io.BytesIO):
    def __init__(self, out: BinaryIO, shown: TerminalBytesFilter) -> None:
        super().__init__()
        self._out, self._shown = out, shown

    def write(self, piece: Any) -> int:
        self._out.write(self._shown.feed(bytes(piece)))
        return len(piece)

    def flush(self) -> None:
        self._out.flush()

    def finish(self) -> None:
        self._out.write(self._shown.finish())
        self._out.flush()


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
