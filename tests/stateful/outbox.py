"""What an executor of the stateful test writes: states, and the events of its outbox."""

from typing import Any

import msgspec

from terracrew.protocol import events


class Plain(msgspec.Struct):
    """What our engine writes as its state."""

    serial: int
    lineage: str
    by: str


def facts(outbox: list[bytes]) -> list[tuple[int, Any]]:
    """Number and record of each event."""
    return [(number, next(events.unpack(packed))) for number, packed in enumerate(outbox, 1)]
