"""States in quarantine, with what one needs to know to decide about them."""

from terracrew.server.dashboard.views import QuarantineRow
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.state import reads


async def quarantine(tx: Tx, who: Principal, module_id: str, place: authorize.Place) -> list[QuarantineRow]:
    """Return the quarantined states of a module, the oldest first, at most as many as one page shows."""
    rows = await reads.quarantined(tx, module_id)
    if not rows:
        return []
    may_decide = (await authorize.visible(tx, who, Verb.STATE_WRITE)).covers(place)
    return [row_to(QuarantineRow, {**row, "may_decide": may_decide}) for row in rows]
