"""The rows of the audit log: inserted, read, never changed."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.server.audit.model import Entry
from terracrew.server.db.mapping import rows_to, to_params
from terracrew.server.db.seam import Columns, Param, Tx

NEWEST_ID = "aud_zzzz"
"""Sorts after the id of every entry."""
_COLUMNS: Columns = {
    "organization_id": "text",
    "id": "text",
    "created_at": "double precision",
    "actor_kind": "text",
    "actor_id": "text",
    "actor_name": "text",
    "action": "text",
    "target_kind": "text",
    "target_id": "text",
    "details": "text",
    "address": "text",
    "credential_id": "text",
}


async def insert(tx: Tx, entries: Sequence[tuple[str | None, Entry]]) -> None:
    """Write entries down, each for its organization (None: for the server itself)."""
    names = tuple(_COLUMNS)[1:]
    await tx.each(
        "INSERT INTO audit (organization_id, id, created_at, actor_kind, actor_id, actor_name, action, target_kind,"
        " target_id, details, address, credential_id) SELECT organization_id, id, created_at, actor_kind, actor_id, actor_name, action,"
        " target_kind, target_id, details, address, credential_id FROM batch",
        _COLUMNS,
        [(organization_id, *to_params(entry, *names).values()) for organization_id, entry in entries],
    )


_PAGE: LiteralString = " AND id < :before ORDER BY id DESC LIMIT :limit"
_ENTRIES: dict[tuple[bool, bool], LiteralString] = {
    (False, False): "SELECT * FROM audit WHERE true" + _PAGE,
    (True, False): "SELECT * FROM audit WHERE organization_id = :organization_id" + _PAGE,
    (False, True): "SELECT * FROM audit WHERE target_id = :target_id" + _PAGE,
    (True, True): "SELECT * FROM audit WHERE target_id = :target_id AND organization_id = :organization_id" + _PAGE,
}
"""By whether an organization and whether a target is named: each of them has an index that gives its page in order."""


async def entries(tx: Tx, organization_id: str | None, target_id: str | None, before: str, limit: int) -> list[Entry]:
    """Return the newest first, of one organization or (None) of all, on one target or on all."""
    given: dict[str, Param] = {"before": before or NEWEST_ID, "limit": limit}
    if organization_id is not None:
        given["organization_id"] = organization_id
    if target_id is not None:
        given["target_id"] = target_id
    return rows_to(Entry, await tx.all(_ENTRIES[organization_id is not None, target_id is not None], **given))
