"""Records when every fault, action and unexpected event happened, on the monotonic clock that witness files also use."""

import sys
import threading
import time
from collections.abc import Callable
from typing import Literal

import msgspec

Kind = Literal["fault", "heal", "act", "start", "exit", "note"]


class Entry(msgspec.Struct, frozen=True):
    at: float
    kind: Kind
    what: str
    target: str = ""
    attempts: tuple[str, ...] = ()
    """Attempts (`job.number`) that had a living process where it struck."""


class Timeline:
    def __init__(self, *, is_loud: bool = False) -> None:
        self.entries: list[Entry] = []
        self.began = time.monotonic()
        self._lock = threading.Lock()
        self._is_loud = is_loud

    def add(self, kind: Kind, what: str, target: str = "", attempts: tuple[str, ...] = ()) -> None:
        entry = Entry(time.monotonic(), kind, what, target, attempts)
        with self._lock:
            self.entries.append(entry)
        if self._is_loud:
            print(self.line(entry), file=sys.stderr, flush=True)

    def watched(self, name: str, work: Callable[[], None]) -> Callable[[], None]:
        """Record the error of a thread: if one fails, the results of the others prove little."""

        def run() -> None:
            try:
                work()
            except Exception as error:
                self.add("exit", f"ended by {error!r}", name)
                raise

        return run

    def line(self, entry: Entry) -> str:
        hit = (
            f"  [{' '.join(entry.attempts)}]"
            if 0 < len(entry.attempts) <= 4
            else f"  [{len(entry.attempts)} attempts]" * bool(entry.attempts)
        )
        return f"{entry.at - self.began:8.2f} s  {entry.kind:5}  {entry.what} {entry.target}{hit}"

    def around(self, at: float, before: float = 20, after: float = 5, words: tuple[str, ...] = ()) -> list[str]:
        """Return what happened near a moment, and all entries that contain one of the words."""
        return [
            self.line(entry)
            for entry in self.entries
            if at - before <= entry.at <= at + after
            or any(word in entry.attempts or word in entry.target for word in words)
        ]
