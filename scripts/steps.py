"""Shows what a long script does at the moment, and for how long: on a terminal in one line, elsewhere a line now and then."""

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

_LINE_SECONDS = 15.0
_TERMINAL_SECONDS = 0.5


@contextmanager
def step(words: str) -> Generator[None]:
    """Say that something goes on, and at its end how long it took."""
    began, done, outcome = time.monotonic(), threading.Event(), "failed after "
    thread = threading.Thread(target=_report, args=(words, done, began), daemon=True)
    thread.start()
    try:
        yield
        outcome = ""
    finally:
        done.set()
        thread.join()
        print(f"{words}: {outcome}{time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


def _report(words: str, done: threading.Event, began: float) -> None:
    is_terminal = sys.stderr.isatty()
    clear = "\r\x1b[K" if is_terminal else ""
    while not done.wait(_TERMINAL_SECONDS if is_terminal else _LINE_SECONDS):
        line = f"{clear}{words} … {time.monotonic() - began:.0f} s"
        print(line, end="" if is_terminal else "\n", file=sys.stderr, flush=True)
    print(clear, end="", file=sys.stderr, flush=True)
