"""Leadership as a row that expires. It only saves work: two leaders do no harm, because every step is a compare-and-set."""

from terracrew.server.db.seam import Database, Tx


async def acquire(db: Database, name: str, holder: str, ttl: float) -> bool:
    """Take the lease, or renew it. Returns False while another holder has it. The database's time decides."""

    async def work(tx: Tx) -> bool:
        row = await tx.one(
            """INSERT INTO leases (name, holder, expires_at) VALUES (:name, :holder, :until)
               ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
               WHERE leases.holder = excluded.holder OR leases.expires_at <= :now
               RETURNING holder""",
            name=name,
            holder=holder,
            until=tx.now + ttl,
            now=tx.now,
        )
        return row is not None

    return await db.write(work)


async def release(db: Database, name: str, holder: str) -> bool:
    """Release the lease, so that another holder need not wait until it expires. Returns False if this holder had lost it."""

    async def work(tx: Tx) -> bool:
        return await tx.run("DELETE FROM leases WHERE name = :name AND holder = :holder", name=name, holder=holder) > 0

    return await db.write(work)


async def holders(tx: Tx, prefix: str) -> dict[str, str]:
    """Return the holders of unexpired leases whose names begin with this prefix, by the rest of their names."""
    rows = await tx.all(
        "SELECT name, holder FROM leases WHERE substr(name, 1, :length) = :prefix AND expires_at > :now ORDER BY name",
        length=len(prefix),
        prefix=prefix,
        now=tx.now,
    )
    return {row["name"].removeprefix(prefix): row["holder"] for row in rows}


async def delete_expired(tx: Tx, prefix: str, now: float) -> None:
    """Delete the leases whose names begin with this prefix and that have expired at this time."""
    await tx.run(
        "DELETE FROM leases WHERE substr(name, 1, :length) = :prefix AND expires_at <= :now",
        length=len(prefix),
        prefix=prefix,
        now=now,
    )
