"""Rows of cloud identities."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import LiteralString

import msgspec

from terracrew.api.cloud_identities import FoundResource
from terracrew.errors import NotFound
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to, to_params
from terracrew.server.db.statements.table import Table, assignments

IDENTITIES = Table("cloud_identities", IdentityRecord, without=("group",))
_FOUND = msgspec.json.Decoder(list[FoundResource])
_CHANGEABLE: tuple[LiteralString, ...] = ("name", "description", "settings", "audience")
_UPDATE: LiteralString = f"UPDATE cloud_identities SET {assignments(*_CHANGEABLE)} WHERE id = :id"
_SELECT: LiteralString = (
    f'SELECT {IDENTITIES.columns}, groups.path AS "group" FROM cloud_identities'
    " JOIN groups ON groups.id = cloud_identities.group_id"
)


async def insert(tx: Tx, record: IdentityRecord) -> None:
    await tx.run(IDENTITIES.insert(), **to_params(record, *IDENTITIES.fields))


async def get(tx: Tx, identity_id: str) -> IdentityRecord:
    found = await find(tx, identity_id)
    if found is None:
        raise missing(identity_id)
    return found


async def find(tx: Tx, identity_id: str) -> IdentityRecord | None:
    row = await tx.one(_SELECT + " WHERE cloud_identities.id = :id", id=identity_id)
    return None if row is None else row_to(IdentityRecord, row)


async def at(tx: Tx, organization_id: str, group: str, name: str) -> IdentityRecord | None:
    """Return the identity of this name in the group with this path."""
    row = await tx.one(
        _SELECT + " WHERE groups.organization_id = :organization_id AND groups.path = :path"
        " AND cloud_identities.name = :name",
        organization_id=organization_id,
        path=group,
        name=name,
    )
    return None if row is None else row_to(IdentityRecord, row)


async def hold(tx: Tx, identity_id: str) -> None:
    """Lock an identity until the transaction ends."""
    await tx.one("SELECT id FROM cloud_identities WHERE id = :id FOR UPDATE", id=identity_id)


async def count(tx: Tx, organization_id: str) -> int:
    return await tx.value(
        "SELECT count(*) AS found FROM cloud_identities WHERE organization_id = :id", id=organization_id
    )


async def update(tx: Tx, after: IdentityRecord) -> None:
    """Write what can be changed. External id and subject never change."""
    await tx.run(_UPDATE, id=after.id, **to_params(after, *_CHANGEABLE))


async def delete(tx: Tx, identity_id: str) -> None:
    await tx.run("DELETE FROM cloud_identities WHERE id = :id", id=identity_id)


async def last_found(tx: Tx, identity_id: str) -> tuple[list[FoundResource], datetime | None]:
    """Return what was in the account when somebody last looked, and when that was."""
    row = await tx.one("SELECT found, found_at FROM cloud_identities WHERE id = :id", id=identity_id)
    if row is None or row["found"] is None:
        return [], None
    return _FOUND.decode(row["found"]), datetime.fromtimestamp(row["found_at"], UTC)


async def keep_found(tx: Tx, identity_id: str, found: Sequence[FoundResource]) -> None:
    """Keep what is in the account, as the cloud has just said."""
    await tx.run(
        "UPDATE cloud_identities SET found = :found, found_at = :now WHERE id = :id",
        id=identity_id,
        found=msgspec.json.encode(found).decode(),
        now=tx.now,
    )


def missing(reference: str) -> NotFound:
    return NotFound(f"there is no cloud identity {reference[:200]!r} here, or you may not see it")
