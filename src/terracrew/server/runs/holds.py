"""What people are told about a hold: why the server is held, and what is known of each module since."""

from terracrew.api.job_views import HeldModuleListed, HoldView, ModuleHold
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.history import reads, store

MAX_MODULES = 500
"""How many modules one view shows, those first that are known to have been changed."""


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
