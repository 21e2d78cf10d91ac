"""Reads which versions of Terracrew the connected instances of runners have, limited to runners that the reader may see."""

from typing import LiteralString

from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize, visibility
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import service

MAX_VERSIONS = 200
"""A runner can report any text as its version, so the number of different ones is limited."""
_COUNTED: LiteralString = """
SELECT instances.version, count(*) AS instances FROM own JOIN instances ON instances.runner_id = own.id
WHERE instances.is_connected GROUP BY instances.version ORDER BY count(*) DESC, instances.version LIMIT :count"""
_OF_ORGANIZATION: LiteralString = """WITH own AS (SELECT runners.id FROM runners
    WHERE runners.organization_id = :organization_id OR runners.organization_id IS NULL AND CAST(:is_shared AS boolean))"""
_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS
    + """, own AS (SELECT runners.id FROM seen_groups JOIN runners ON runners.group_id = seen_groups.id
    UNION ALL SELECT runners.id FROM runners WHERE runners.organization_id IS NULL AND CAST(:is_shared AS boolean))"""
)


async def seen_by(tx: Tx, who: Principal) -> dict[str, int]:
    """Return how many connected instances the reader may see, by version."""
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    organization_id, is_shared = who.organization_id or "", service.is_shared_seen(who)
    if seen.is_everything(organization_id):
        sql, given = _OF_ORGANIZATION, {"organization_id": organization_id}
    else:
        sql, given = _OF_READER, visibility.params(seen)
    rows = await tx.all(sql + _COUNTED, is_shared=is_shared, count=MAX_VERSIONS, **given)
    return {row["version"]: row["instances"] for row in rows}
