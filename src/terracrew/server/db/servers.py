"""The servers that use a database, and whether they understand its tables: those of several versions share it during an upgrade.

Each server has a row with its version, which expires. A server that has to apply a migration that older servers cannot live with
announces it in its row, and applies it when no server that does not know it is left. Later versions of Terracrew read and write
these columns as this one does, because every version must be able to find out that it has to end.
"""

import msgspec

from terracrew import __version__
from terracrew.errors import Incompatible
from terracrew.server.db.seam import Tx

LEASE_SECONDS = 15.0
"""How long a server that has been killed counts as one that uses the database."""
FIRST_LEASE_SECONDS = 60.0
"""The lease of a server that starts, which renews it only when everything is ready."""
GUIDE = "docs/upgrades.md"


class KnownServer(msgspec.Struct, frozen=True):
    """A server that uses the database."""

    id: str
    version: str

    def __str__(self) -> str:
        return f"{self.id} (Terracrew {self.version})"


async def renew(tx: Tx, server_id: str, newest_known: int, *, announced: int = 0, seconds: float) -> None:
    """Say that a server of this version uses the database, for so many seconds."""
    await tx.run(
        """INSERT INTO servers (id, version, newest_known, announced, expires_at)
        VALUES (:id, :version, :newest_known, :announced, :expires_at)
        ON CONFLICT (id) DO UPDATE SET announced = excluded.announced, expires_at = excluded.expires_at""",
        id=server_id,
        version=__version__,
        newest_known=newest_known,
        announced=announced,
        expires_at=tx.now + seconds,
    )
    await tx.run("DELETE FROM servers WHERE expires_at <= :now", now=tx.now - FIRST_LEASE_SECONDS)


async def leave(tx: Tx, server_id: str) -> None:
    """Say that this server does not use the database any more."""
    await tx.run("DELETE FROM servers WHERE id = :id", id=server_id)


async def older_than(tx: Tx, number: int) -> list[KnownServer]:
    """Return the servers that use the database and do not know this migration."""
    rows = await tx.all(
        "SELECT id, version FROM servers WHERE newest_known < :number AND expires_at > :now ORDER BY id",
        number=number,
        now=tx.now,
    )
    return [KnownServer(row["id"], row["version"]) for row in rows]


async def count_by_version(tx: Tx) -> dict[str, int]:
    """Return how many servers of each version use the database."""
    rows = await tx.all(
        "SELECT version, count(*) AS count FROM servers WHERE announced = 0 AND expires_at > :now GROUP BY version",
        now=tx.now,
    )
    return {row["version"]: row["count"] for row in rows}


async def find_problem(tx: Tx, newest_known: int) -> Incompatible | None:
    """Return why a server that knows the migrations up to this one cannot use the database, or cannot much longer."""
    row = await tx.one(
        "SELECT number, applied_by FROM migrations WHERE number > :known AND NOT lets_older_continue"
        " ORDER BY number DESC LIMIT 1",
        known=newest_known,
    )
    if row is not None:
        return _changed_by_newer(row["number"], row["applied_by"], newest_known)
    row = await tx.one(
        "SELECT version, announced FROM servers WHERE announced > :known AND expires_at > :now"
        " ORDER BY announced DESC LIMIT 1",
        known=newest_known,
        now=tx.now,
    )
    return None if row is None else _announced_by_newer(row["announced"], row["version"], newest_known)


def _changed_by_newer(number: int, version: str, newest_known: int) -> Incompatible:
    newer = f"Terracrew {version}" if version not in ("", __version__) else "a newer Terracrew"
    return Incompatible(
        f"{newer} has changed the database to its version {number}. This is Terracrew {__version__}, which knows the database up "
        f"to version {newest_known}: install {newer} here. The way back to Terracrew {__version__} is a backup of the database "
        f"from before that change ({GUIDE})",
        database=number,
        program=newest_known,
    )


def _announced_by_newer(number: int, version: str, newest_known: int) -> Incompatible:
    return Incompatible(
        f"Terracrew {version} is starting and waits to change the database to its version {number}. This is Terracrew "
        f"{__version__}, which knows the database up to version {newest_known}, so it ends, and its runners go on with the newer "
        f"server. Install Terracrew {version} here ({GUIDE})",
        announced=number,
        program=newest_known,
    )
