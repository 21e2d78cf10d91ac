"""Rows of the audit log: entries are inserted and read, never changed, and deleted by retention only."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.audit.model import Entry
from terracrew.server.db.seam import Param, Row, Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.db.statements.table import Table, values

NEWEST_ID = "aud_zzzz"
"""Sorts after the id of every entry."""
ENTRIES = Table("audit", Entry)
_INSERT = ENTRIES.insert_batch(*ENTRIES.fields, "organization_id")
_INSERT_TYPES = ENTRIES.types_of(*ENTRIES.fields, organization_id="text")


async def insert(tx: Tx, entries: Sequence[tuple[str | None, Entry]]) -> None:
    """Insert entries, each with its organization (None for the server itself)."""
    rows = [(*values(entry), organization_id) for organization_id, entry in entries]
    await tx.each(_INSERT, _INSERT_TYPES, rows)


async def has(tx: Tx, action: str, target_id: str) -> bool:
    """Return whether this action on this target was recorded before."""
    row = await tx.one(
        "SELECT 1 AS yes FROM audit WHERE target_id = :target AND action = :action LIMIT 1",
        target=target_id,
        action=action,
    )
    return row is not None


async def delete_batch(tx: Tx, entry_ids: Sequence[str]) -> None:
    """Delete entries that retention no longer keeps."""
    rows = [(each,) for each in entry_ids]
    await tx.each("DELETE FROM audit WHERE id IN (SELECT id FROM batch)", {"id": "text"}, rows)


_PAGE: LiteralString = " AND id < :before ORDER BY id DESC LIMIT :limit"
_ENTRIES: dict[tuple[bool, bool], LiteralString] = {
    (False, False): "SELECT * FROM audit WHERE true" + _PAGE,
    (True, False): "SELECT * FROM audit WHERE organization_id = :organization_id" + _PAGE,
    (False, True): "SELECT * FROM audit WHERE target_id = :target_id" + _PAGE,
    (True, True): "SELECT * FROM audit WHERE target_id = :target_id AND organization_id = :organization_id" + _PAGE,
}
"""The statements with and without an organization and a target: each has an index that returns a page in order."""


async def entries(tx: Tx, organization_id: str | None, target_id: str | None, before: str, limit: int) -> list[Entry]:
    """Return entries, the newest first. None as the organization or the target stands for all of them."""
    given: dict[str, Param] = {"before": before or NEWEST_ID, "limit": limit}
    if organization_id is not None:
        given["organization_id"] = organization_id
    if target_id is not None:
        given["target_id"] = target_id
    return rows_to(Entry, await tx.all(_ENTRIES[organization_id is not None, target_id is not None], **given))


async def older(tx: Tx, after: str, newest: str, before: float, limit: int) -> list[Row]:
    """Return entries after the id `after` made before this time, with their sizes. `newest` sorts after the ids of all of them."""
    return await tx.all(
        """SELECT id, length(details) + length(action) + length(target_id) + length(actor_name) AS bytes FROM audit
        WHERE id > :after AND id < :newest AND created_at <= :before ORDER BY id LIMIT :limit""",
        after=after,
        newest=newest,
        before=before,
        limit=limit,
    )
