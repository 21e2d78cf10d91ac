"""The counts beside the main menu."""

from terracrew.server.db.mapping import row_to
from terracrew.server.db.seam import Tx
from terracrew.server.identity.model import Principal
from terracrew.server.web.views import Nav


async def counts(tx: Tx, who: Principal) -> Nav:
    """Of the reader's organization as a whole: a count tells nothing about what one may not see."""
    row = await tx.one(
        """SELECT name AS organization,
            (SELECT count(*) FROM jobs WHERE organization_id = :id AND status = 'AWAITING_APPROVAL') AS to_approve,
            (SELECT count(*) FROM jobs WHERE organization_id = :id
                AND status NOT IN ('SUCCEEDED', 'FAILED', 'CANCELED', 'DECLINED')) AS open_jobs,
            (SELECT count(*) FROM modules WHERE organization_id = :id) AS modules,
            (SELECT count(*) FROM runners WHERE organization_id = :id OR organization_id IS NULL) AS runners
        FROM organizations WHERE id = :id""",
        id=who.organization_id,
    )
    return Nav() if row is None else row_to(Nav, row)
