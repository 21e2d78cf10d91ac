"""What an engine says about a plan, whatever the format in which it says it."""

from typing import Literal

import msgspec

from terracrew.protocol.events import FailedCheck

Action = Literal["create", "update", "delete", "replace", "read", "import", "move", "forget"]


class PlannedChange(msgspec.Struct, frozen=True):
    address: str
    action: Action
    reason: str = ""
    """Why the engine plans it, as a code of `plan_words`."""
    previous_address: str = ""
    """Where a moved resource was before."""
    import_id: str | None = None
    """The id that a resource is imported by; None if it is not imported. An id may be hidden, and is then empty."""


class PlanFacts(msgspec.Struct, frozen=True):
    changes: list[PlannedChange]
    outputs: dict[str, str]
    """Output name → create, update or delete."""
    vanished: frozenset[str]
    """The addresses of resources that are in the state but no longer exist."""
    refreshed: int
    """How many resources of the state the engine looked at. It counts them if the state itself is not known here."""
    checks: list[FailedCheck] = []
    """The checks that failed."""
