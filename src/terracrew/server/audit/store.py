"""The rows of the audit log: inserted, read, never changed."""

from collections.abc import Sequence

from terracrew.server.audit.model import Entry
from terracrew.server.db.mapping import rows_to, to_params
from terracrew.server.db.seam import Columns, Tx

_COLUMNS: Columns = {
    "organization_id": "text", "id": "text", "created_at": "double precision", "actor_kind": "text", "actor_id": "text",
    "actor_name": "text", "action": "text", "target_kind": "text", "target_id": "text", "details": "text",
}  # fmt: skip


async def insert(tx: Tx, entries: Sequence[tuple[str | None, Entry]]) -> None:
    """Write entries down, each for its organization (None: for the server itself)."""
    names = tuple(_COLUMNS)[1:]
    await tx.each(
        "INSERT INTO audit (organization_id, id, created_at, actor_kind, actor_id, actor_name, action, target_kind,"
        " target_id, details) SELECT organization_id, id, created_at, actor_kind, actor_id, actor_name, action,"
        " target_kind, target_id, details FROM batch",
        _COLUMNS,
        [(organization_id, *to_params(entry, *names).values()) for organization_id, entry in entries],
    )


async def entries(tx: Tx, organization_id: str | None, target_id: str | None, before: str, limit: int) -> list[Entry]:
    """The newest first, of one organization or (None) of all, on one target or on all."""
    rows = await tx.all(
        "SELECT * FROM audit WHERE (CAST(:organization_id AS text) IS NULL OR organization_id = :organization_id)"
        " AND (CAST(:target_id AS text) IS NULL OR target_id = :target_id)"
        " AND (CAST(:before AS text) = '' OR id < :before) ORDER BY id DESC LIMIT :limit",
        organization_id=organization_id, target_id=target_id, before=before, limit=limit,
    )  # fmt: skip
    return rows_to(Entry, rows)
