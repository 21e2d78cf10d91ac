"""An alert: something happened to a runner that the thief of its credentials would cause, too."""

import msgspec

from terracrew.api.runners import AlertKind

MOVE_SHOWN_SECONDS = 7 * 24 * 3600.0


class Occurrence(msgspec.Struct, frozen=True):
    """One event that raises an alert, or is counted by one that is open."""

    kind: AlertKind
    instance: str
    address: str | None
    former_address: str | None = None
    former_at: float | None = None
    is_other_machine: bool = False
