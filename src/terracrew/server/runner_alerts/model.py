"""An alert: something happened to a runner that the thief of its credentials would cause, too."""

from datetime import datetime
from enum import StrEnum

import msgspec


class AlertKind(StrEnum):
    MOVED = "moved"
    """An instance came back from another address or machine while nobody was connected as it, or the same process did."""
    TAKEN_OVER = "taken_over"
    """Another process took the place of a connected instance that did not answer."""
    REFUSED = "refused"
    """Another process wanted the place of a connected instance, which answered and kept it."""
    ENDED_TOKEN = "ended_token"  # noqa: S105 (a word, not a secret)
    """Somebody used a worker token that the runner had replaced by itself."""


URGENT = frozenset(AlertKind) - {AlertKind.MOVED}
"""The kinds that stay until a person acknowledges them. A move is ordinary on many networks, so it is shown for some days."""
MOVE_SHOWN_SECONDS = 7 * 24 * 3600.0


class RunnerAlert(msgspec.Struct, frozen=True):
    id: str
    runner_id: str
    kind: AlertKind
    instance: str
    """The name that the process gave; empty if there are too many names, or none is known."""
    address: str | None
    """The address that the last occurrence came from. Behind a trusted proxy it is that of the proxy's client."""
    former_address: str | None
    """The address of the process that had the place before, or has kept it."""
    former_at: datetime | None
    """When that process was last in contact."""
    is_other_machine: bool
    """Whether both processes name the machine that they run on, and the names differ."""
    count: int
    first_at: datetime
    last_at: datetime
    acknowledged_at: datetime | None = None
    acknowledged_by: str | None = None

    @property
    def is_urgent(self) -> bool:
        return self.kind in URGENT


class Occurrence(msgspec.Struct, frozen=True):
    """One event that raises an alert, or is counted by one that is open."""

    kind: AlertKind
    instance: str
    address: str | None
    former_address: str | None = None
    former_at: float | None = None
    is_other_machine: bool = False
