"""What people are told about a hold: why the server is held, and what is known of each module since."""

from datetime import datetime

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.history import reads, store
from terracrew.server.history.model import Hold

MAX_MODULES = 500
"""How many modules one view shows, those first that are known to have been changed."""


class ModuleHold(msgspec.Struct, frozen=True):
    """A hold because of which a module is held or in doubt. Its reason may name other organizations, so it is not here."""

    hold_id: str
    set_back_to: datetime | None
    started_at: datetime
    is_held: bool
    is_in_doubt: bool
    evidence: str


class HeldModuleListed(msgspec.Struct, frozen=True):
    id: str
    path: str
    organization: str
    is_held: bool
    is_in_doubt: bool
    evidence: str
    """What is known of changes that the database has lost; empty if the module only may have been changed."""


class HoldView(msgspec.Struct, frozen=True):
    """Whether the server hands out changes, and what a person has to look at before it does."""

    is_held: bool
    hold: Hold | None = None
    """The open hold; None if the server is not held."""
    held_modules: int = 0
    """How many modules nobody has released."""
    changed_modules: int = 0
    """How many modules are known to have been changed since the time that the database was set back to."""
    modules: list[HeldModuleListed] = []
    """The first 500, those first that are known to have been changed."""


async def view(tx: Tx) -> HoldView:
    hold = await store.open_hold(tx)
    if hold is None:
        return HoldView(is_held=False)
    counts = await reads.held_counts(tx, hold.id)
    rows = await reads.held_modules(tx, hold.id, MAX_MODULES)
    return HoldView(True, hold, counts["held"], counts["changed"], rows_to(HeldModuleListed, rows))


async def of_module(tx: Tx, module_id: str) -> list[ModuleHold]:
    """Return the holds because of which a module is held or in doubt."""
    return rows_to(ModuleHold, await reads.holds_of_module(tx, module_id))
