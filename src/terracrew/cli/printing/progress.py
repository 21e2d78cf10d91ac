"""Shows on standard error how far a long task is. A task that ends within two seconds shows nothing."""

import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from terracrew.cli.printing import output, streams

if TYPE_CHECKING:
    from rich.progress import Progress

DELAY_SECONDS = 2.0
Report = Callable[[str, int, int], None]
"""Takes what is being done, how many bytes of it are done, and how many there are; 0 if that is not known yet."""


@contextmanager
def of_bytes() -> Generator[Report]:
    """Yield a function that reports the progress of a transfer. It shows nothing with --json, or without a terminal."""
    if output.wants_json() or not sys.stderr.isatty():
        yield _show_nothing
        return
    bar = _DelayedBar()
    try:
        yield bar.report
    finally:
        bar.close()


def _show_nothing(text: str, done: int, total: int) -> None:
    """Take a report and show nothing."""


class _DelayedBar:
    """A bar that appears when the task has taken `DELAY_SECONDS`, and is removed when the task ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: tuple[str, int, int] = ("", 0, 0)
        self._bars: Progress | None = None
        self._task: Any = None
        self._is_closed = False
        self._timer = threading.Timer(DELAY_SECONDS, self._appear)
        self._timer.daemon = True
        self._timer.start()

    def report(self, text: str, done: int, total: int) -> None:
        with self._lock:
            self._last = text, done, total
            self._draw()

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_closed = True
            if self._bars is not None:
                self._bars.stop()

    def _appear(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=28),
            TextColumn("{task.fields[amount]}", style="cyan"),
            TimeElapsedColumn(),
        )
        with self._lock:
            if self._is_closed:
                return
            console = Console(file=streams.unguarded_stderr())
            self._bars = Progress(
                *columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False
            )
            self._task = self._bars.add_task("", total=None, amount="")
            self._draw()
            self._bars.start()

    def _draw(self) -> None:
        if self._bars is not None:
            text, done, total = self._last
            amount = f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if total else ""
            self._bars.update(self._task, description=text, completed=done, total=total or None, amount=amount)
