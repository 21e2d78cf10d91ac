"""The counts beside the main menu: of what the reader may see, and bounded, since every page has them."""

from typing import LiteralString

from terracrew.server.dashboard.views import Nav
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs.reads import OPEN
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service as runners

MAX_COUNTED = 999
"""Whatever there is more of is shown as `999+`."""
_SHARED: LiteralString = "SELECT id FROM runners WHERE organization_id IS NULL AND CAST(:is_shared AS boolean)"
_OF_ORGANIZATION: LiteralString = (
    """SELECT name AS organization,
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE organization_id = :id AND """
    + OPEN
    + """ AND jobs.status = 'AWAITING_APPROVAL' LIMIT :most) AS counted) AS to_approve,
    (SELECT count(*) FROM (SELECT 1 FROM jobs WHERE organization_id = :id AND """
    + OPEN
    + """ ORDER BY jobs.id LIMIT :most) AS counted) AS open_jobs,
    (SELECT count(*) FROM (SELECT 1 FROM modules WHERE organization_id = :id LIMIT :most) AS counted) AS modules,
    (SELECT count(*) FROM (SELECT id FROM runners WHERE organization_id = :id UNION ALL """
    + _SHARED
    + """ LIMIT :most) AS counted) AS runners
FROM organizations WHERE id = :id"""
)
_OF_READER: LiteralString = (
    visibility.SEEN_MODULES
    + """ SELECT name AS organization,
    (SELECT count(*) FROM (SELECT 1 FROM seen_modules JOIN jobs ON jobs.module_id = seen_modules.id AND """
    + OPEN
    + """ AND jobs.status = 'AWAITING_APPROVAL' LIMIT :most) AS counted) AS to_approve,
    (SELECT count(*) FROM (SELECT 1 FROM seen_modules JOIN jobs ON jobs.module_id = seen_modules.id AND """
    + OPEN
    + """ LIMIT :most) AS counted) AS open_jobs,
    (SELECT count(*) FROM (SELECT 1 FROM seen_modules LIMIT :most) AS counted) AS modules,
    (SELECT count(*) FROM (SELECT runners.id FROM seen_groups JOIN runners ON runners.group_id = seen_groups.id UNION ALL """
    + _SHARED
    + """ LIMIT :most) AS counted) AS runners
FROM organizations WHERE id = :id"""
)


async def counts(tx: Tx, who: Principal) -> Nav:
    """Every role that lets one see a module lets one see its jobs and the runners there, so that one question is enough."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    given: dict[str, Param] = {
        "id": who.organization_id,
        "most": MAX_COUNTED + 1,
        "is_shared": runners.is_shared_seen(who),
    }
    if seen.is_everything(who.organization_id or ""):
        row = await tx.one(_OF_ORGANIZATION, **given)
    else:
        row = await tx.one(_OF_READER, **given, **visibility.params(seen))
    return Nav() if row is None else row_to(Nav, row)
