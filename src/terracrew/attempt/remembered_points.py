"""The points of the server's history that a process was told last, in a file that survives a power cut.

A server whose database lacks one of them was set back, and learns it from the next hello that names them.
"""

import threading
from collections.abc import Iterable
from pathlib import Path

from terracrew.system import durable

MAX_POINTS = 16
MAX_POINT_CHARACTERS = 400
"""A server's point has less than half as many."""


class RememberedPoints:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._points = read(path)
        self._lock = threading.Lock()

    @property
    def points(self) -> list[str]:
        """The points, the newest last."""
        return list(self._points)

    def add(self, points: Iterable[str]) -> None:
        """Remember points, durably; of too many, the first ones are forgotten. Two syncs, or none if they are known."""
        with self._lock:  # a runner removes ended attempts in other threads
            new = [each for each in points if each and len(each) <= MAX_POINT_CHARACTERS and each not in self._points]
            if new:
                kept = [*self._points, *new][-MAX_POINTS:]
                durable.write(self._path, "\n".join(kept).encode())
                self._points = kept


def read(path: Path) -> list[str]:
    """Return the points in a file; none if there is no such file or it cannot be read."""
    try:
        return path.read_text("ascii").split()[-MAX_POINTS:]
    except (FileNotFoundError, UnicodeDecodeError):
        return []
