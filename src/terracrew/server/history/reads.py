"""What people are told about holds: which modules they concern, and what is known of them."""

from terracrew.server.db.seam import Row, Tx


async def holds_of_module(tx: Tx, module_id: str) -> list[Row]:
    """Return the holds because of which a module is held or in doubt, the newest first."""
    return await tx.all(
        """SELECT holds.id AS hold_id, holds.set_back_to, holds.started_at, held_modules.is_held,
            held_modules.is_in_doubt, held_modules.evidence
        FROM held_modules JOIN holds ON holds.id = held_modules.hold_id
        WHERE held_modules.module_id = :module_id AND (held_modules.is_held OR held_modules.is_in_doubt)
        ORDER BY holds.id DESC""",
        module_id=module_id,
    )


async def held_modules(tx: Tx, hold_id: str, count: int) -> list[Row]:
    """Return the modules of a hold, those first that are known to have been changed."""
    return await tx.all(
        """SELECT modules.id, modules.path, organizations.name AS organization, held_modules.is_held,
            held_modules.is_in_doubt, held_modules.evidence
        FROM held_modules JOIN modules ON modules.id = held_modules.module_id
        JOIN organizations ON organizations.id = modules.organization_id
        WHERE held_modules.hold_id = :hold_id
        ORDER BY held_modules.evidence = '', NOT held_modules.is_held, organizations.name, modules.path LIMIT :count""",
        hold_id=hold_id,
        count=count,
    )


async def held_counts(tx: Tx, hold_id: str) -> Row:
    """Count the modules that nobody has released from a hold, and those that are known to have been changed."""
    row = await tx.one(
        """SELECT coalesce(sum(CASE WHEN held_modules.is_held THEN 1 ELSE 0 END), 0) AS held,
            coalesce(sum(CASE WHEN held_modules.evidence <> '' THEN 1 ELSE 0 END), 0) AS changed
        FROM held_modules WHERE held_modules.hold_id = :hold_id""",
        hold_id=hold_id,
    )
    assert row is not None
    return row
