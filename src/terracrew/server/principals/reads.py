"""Reads the roles of a principal."""

from terracrew.server.db.seam import Row, Tx


async def role_bindings(tx: Tx, principal_id: str, organization_id: str | None) -> list[Row]:
    """Return the roles that a principal has in an organization and that have not expired."""
    return await tx.all(
        "SELECT id, place_kind, path, role, expires_at FROM role_bindings WHERE principal_id = :id"
        " AND organization_id = :own AND (expires_at IS NULL OR expires_at > :now)",
        id=principal_id,
        own=organization_id,
        now=tx.now,
    )
