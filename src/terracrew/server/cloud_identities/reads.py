"""Reads the cloud identities of a list, and those that the runners of a group may use."""

from typing import LiteralString

from terracrew.api.access import RunnerReference
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.cloud_identities.store import IDENTITIES
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

_COLUMNS: LiteralString = f'{IDENTITIES.columns}, groups.path AS "group"'
_OF_ORGANIZATION: LiteralString = f"""SELECT {_COLUMNS} FROM cloud_identities
JOIN groups ON groups.id = cloud_identities.group_id
WHERE cloud_identities.organization_id = :organization_id AND cloud_identities.id > :after
ORDER BY cloud_identities.id LIMIT :limit"""
_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS
    + f""" SELECT {_COLUMNS} FROM seen_groups JOIN cloud_identities ON cloud_identities.group_id = seen_groups.id
JOIN groups ON groups.id = cloud_identities.group_id
WHERE cloud_identities.id > :after ORDER BY cloud_identities.id LIMIT :limit"""
)
_USABLE_IN: LiteralString = f"""SELECT {_COLUMNS} FROM cloud_identities JOIN groups ON groups.id = cloud_identities.group_id
WHERE cloud_identities.organization_id = :organization_id AND (groups.path = '' OR groups.path = CAST(:path AS text)
    OR substr(CAST(:path AS text), 1, length(groups.path) + 1) = groups.path || '/')
ORDER BY groups.depth DESC, cloud_identities.name"""
_RUNNERS: LiteralString = """SELECT cloud_deployments.identity_id, runners.id, runners.path FROM batch
JOIN cloud_identities ON cloud_identities.id = batch.id
JOIN cloud_deployments ON cloud_deployments.identity_id = cloud_identities.id
JOIN runners ON runners.id = cloud_deployments.runner_id ORDER BY runners.path"""


async def seen(tx: Tx, organization_id: str, visible: Visible, after: str, limit: int) -> list[IdentityRecord]:
    """Return the identities of an organization that the reader may see, ordered by id."""
    if visible.is_nothing:
        return []
    if visible.is_everything(organization_id):
        rows = await tx.all(_OF_ORGANIZATION, organization_id=organization_id, after=after, limit=limit)
    else:
        rows = await tx.all(_OF_READER, after=after, limit=limit, **visibility.params(visible))
    return rows_to(IdentityRecord, rows)


async def usable_in(tx: Tx, organization_id: str, group: str) -> list[IdentityRecord]:
    """Return the identities that runners of a group may use: those of the group itself and of the groups above, nearest first."""
    return rows_to(IdentityRecord, await tx.all(_USABLE_IN, organization_id=organization_id, path=group))


async def runners_of(tx: Tx, *identity_ids: str) -> dict[str, list[RunnerReference]]:
    """Return the runners that are deployed with each of these identities, ordered by path."""
    rows = await tx.each_id(_RUNNERS, sorted(set(identity_ids)))
    found: dict[str, list[RunnerReference]] = {each: [] for each in identity_ids}
    for row in sorted(rows, key=lambda row: row["path"]):
        found[row["identity_id"]].append(RunnerReference(row["id"], row["path"]))
    return found
