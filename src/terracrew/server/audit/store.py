"""The rows of the audit log: inserted, read, never changed."""

from terracrew.server.audit.model import Entry
from terracrew.server.db.mapping import rows_to, to_params
from terracrew.server.db.seam import Tx


async def insert(tx: Tx, organization_id: str | None, entry: Entry) -> None:
    await tx.run(
        "INSERT INTO audit (id, organization_id, created_at, actor_kind, actor_id, actor_name, action, target_kind,"
        " target_id, details) VALUES (:id, :organization_id, :created_at, :actor_kind, :actor_id, :actor_name, :action,"
        " :target_kind, :target_id, :details)",
        organization_id=organization_id, **to_params(entry),
    )  # fmt: skip


async def entries(tx: Tx, organization_id: str | None, target_id: str | None, before: str, limit: int) -> list[Entry]:
    """The newest first, of one organization or (None) of all, on one target or on all."""
    rows = await tx.all(
        "SELECT * FROM audit WHERE (CAST(:organization_id AS text) IS NULL OR organization_id = :organization_id)"
        " AND (CAST(:target_id AS text) IS NULL OR target_id = :target_id)"
        " AND (CAST(:before AS text) = '' OR id < :before) ORDER BY id DESC LIMIT :limit",
        organization_id=organization_id, target_id=target_id, before=before, limit=limit,
    )  # fmt: skip
    return rows_to(Entry, rows)
