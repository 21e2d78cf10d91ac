"""Reads the roles of a principal."""

from terracrew.server.db.seam import Row, Tx


async def role_bindings(tx: Tx, principal_id: str, organization_id: str | None) -> list[Row]:
    """Return the places of an organization where a principal has a role."""
    return await tx.all(
        "SELECT place_kind, path, role FROM role_bindings WHERE principal_id = :id AND organization_id = :own",
        id=principal_id,
        own=organization_id,
    )
