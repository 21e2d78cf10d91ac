"""The lock of a module's own backend that an attempt may have left behind. Terracrew cannot see that lock."""

from terracrew.api.job_views import HeldLock
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.runs import reads


async def of_module(tx: Tx, module_id: str, backend: str) -> HeldLock | None:
    """Return the last attempt that may have left the lock behind; None after a later one has taken the lock and released it."""
    if backend != "own":
        return None
    row = await reads.held_lock(tx, module_id)
    return None if row is None else row_to(HeldLock, row)
