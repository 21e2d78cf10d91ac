"""A hold: while it is open, nothing is handed out that changes something, except for modules that a person has released."""

from datetime import datetime

import msgspec


class HeldModule(msgspec.Struct, frozen=True):
    """What a hold means for one module."""

    module_id: str
    hold_id: str
    is_held: bool
    """Whether it waits for a person to release it."""
    is_in_doubt: bool
    """Whether a change may be unaccounted for. Every plan of the module waits for approval until one of them has begun."""
    evidence: str = ""
    """What is known of changes that the database has lost; empty if the module only may have been changed."""
    released_at: datetime | None = None
    released_by: str | None = None
