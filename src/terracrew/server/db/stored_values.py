"""Single values that the server stores by name, in the table `settings`: check values, tokens and progress of chores."""

from terracrew.server.db.seam import Tx


async def get(tx: Tx, name: str) -> bytes | None:
    row = await tx.one("SELECT value FROM settings WHERE name = :name", name=name)
    return None if row is None else bytes(row["value"])


async def hold(tx: Tx, name: str) -> bytes:
    """Return a value that is stored, and lock its row until the transaction ends."""
    row = await tx.one("SELECT value FROM settings WHERE name = :name FOR UPDATE", name=name)
    assert row is not None
    return bytes(row["value"])


async def put(tx: Tx, name: str, value: bytes) -> None:
    await tx.run(
        """INSERT INTO settings (name, value) VALUES (:name, :value)
        ON CONFLICT (name) DO UPDATE SET value = excluded.value""",
        name=name,
        value=value,
    )


async def get_or_put(tx: Tx, name: str, value: bytes) -> bytes:
    """Return the stored value. If there is none, store `value`; if several servers do so, the first one wins."""
    await tx.run(
        "INSERT INTO settings (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING",
        name=name,
        value=value,
    )
    stored = await get(tx, name)
    assert stored is not None
    return stored
