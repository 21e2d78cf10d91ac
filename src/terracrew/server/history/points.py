"""The history of the database: points that are written when something happens that must not be repeated.

Servers, runners and executors remember the last points that they were told. A database that lacks one of them was set back to a
time before it (ADR 0071). A number that grows would not do: a server that was set back and went on would soon reach the
number again. A point is sealed with the master key, so nobody can invent one and so stop the jobs of everybody else.
"""

import base64
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import msgspec

from terracrew import ids
from terracrew.errors import Undecryptable
from terracrew.protocol.messages import AttemptRef
from terracrew.server.db.seam import Tx
from terracrew.server.history import store
from terracrew.server.secrets.keyring import Keyring
from terracrew.system import durable

FILE_NAME = "history"
KEPT_SECONDS = 30 * 86400.0
"""How long points are kept. What somebody was told more than half as long ago is not compared."""
MAX_POINTS = 64
"""The most points of one hello that are looked at."""


class Point(msgspec.Struct, frozen=True):
    """A point that somebody was told."""

    id: str
    module_id: str
    """The module that was changed; empty if the point is not about a change."""
    change: AttemptRef | None
    """The attempt that changed it, which had permission to apply."""
    at: float
    """When it was made, in seconds since 1970, by the clock of the database. Holds are compared with it, by the same clock."""


class History:
    """What this server knows of the history of its database."""

    def __init__(self, keys: Keyring, file: Path | None = None) -> None:
        """`file` is where this server remembers the newest point, for its next process."""
        self._keys, self._file = keys, file
        self._latest, self._latest_at = "", 0.0
        self._of_others = ""
        """The id of the newest point that another server has written, as far as it is known here."""
        self._saved = ""

    @property
    def latest(self) -> str:
        """The newest point that this server has written, as it is told to others; empty before the first one."""
        return self._latest

    @property
    def latest_at(self) -> float:
        """When the newest point was written, in seconds since 1970."""
        return max(self._latest_at, ids.created_at(self._of_others) if self._of_others else 0.0)

    async def add(self, tx: Tx, module_id: str = "", change: AttemptRef | None = None) -> str:
        """Write a new point, which is told to others from the commit on. It may be about an attempt that changes a module."""
        point_id = ids.new("hst")
        await store.add_point(tx, point_id)
        about = f" {module_id} {change.job_id} {change.attempt}" if change else ""
        seal = self._keys.encrypt(f"{tx.now}{about}".encode(), _context(point_id))
        point = f"{point_id}.{base64.urlsafe_b64encode(seal).decode()}"
        tx.on_commit(partial(self._added, point, tx.now))
        tx.wake("history", point_id)
        return point

    def _added(self, point: str, at: float) -> None:
        self._latest, self._latest_at, self._of_others = point, at, ""  # a lost point is noticed once

    def _genuine(self, points: Iterable[str]) -> dict[str, Point]:
        """Return those of these points that a server with this master key has made, by their ids."""
        found: dict[str, Point] = {}
        for text in list(points)[:MAX_POINTS]:
            point_id, _, seal = text.partition(".")
            try:
                content = self._keys.decrypt(base64.urlsafe_b64decode(seal), _context(point_id)).decode()
                at, *about = content.split()
                change = AttemptRef(about[1], int(about[2])) if about else None
                found[point_id] = Point(point_id, about[0] if about else "", change, float(at))
            except (Undecryptable, ValueError):
                continue
        return found

    def prove_begin(self, points: Iterable[str], ref: AttemptRef) -> bool:
        """Return whether one of these points was told to this attempt with its permission to apply.

        What an executor says alone is no proof: it could give the permission to itself.
        """
        return any(point.change == ref for point in self._genuine(points).values())

    async def missing(self, tx: Tx, points: Iterable[str]) -> list[Point]:
        """Return those of these points that a server of this installation has made, and that the database lacks."""
        genuine = self._genuine(point for point in points if point != self._latest)
        known = await store.known_points(tx, list(genuine)) if genuine else set[str]()
        since = tx.now - KEPT_SECONDS / 2
        return [point for point_id, point in genuine.items() if point_id not in known and point.at > since]

    def note_of_others(self, point_id: str) -> None:
        """Take note of a point that another server has written."""
        self._of_others = max(self._of_others, point_id)

    async def lacks_latest(self, tx: Tx) -> bool:
        """Return whether the database lacks the newest point that this server, or another one, has written to it."""
        wanted = {each for each in (self._latest.partition(".")[0], self._of_others) if each}
        return bool(wanted) and not wanted <= await store.known_points(tx, sorted(wanted))

    # ---- the memory of this server on its disk

    def remembered(self) -> str:
        """Return the last point that a server with this data directory has saved."""
        if self._file is None:
            return ""
        try:
            return self._file.read_text("ascii").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            return ""

    def remember(self) -> None:
        """Save the newest point, so that the next process of this server compares the database with it."""
        if self._file is not None and self._latest != self._saved:
            durable.write(self._file, self._latest.encode())
            self._saved = self._latest


def _context(point_id: str) -> str:
    return f"history:{point_id}"
