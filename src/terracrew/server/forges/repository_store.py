"""Rows of the repositories that connections watch, and who asks the forge about each of them at this moment."""

from collections.abc import Sequence
from datetime import datetime
from typing import LiteralString

from terracrew import ids
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to, to_params
from terracrew.server.db.statements.table import Table, assignments, values
from terracrew.server.forges import addresses
from terracrew.server.forges.model import ForgeRepository

REPOSITORIES = Table("forge_repositories", ForgeRepository)
SKEW_SECONDS = 120.0
"""How much the clock of a forge may be behind this one when a repository is first watched."""
_FIXED = ("id", "connection_id", "created_at")
_CHANGEABLE: tuple[LiteralString, ...] = tuple(field for field in REPOSITORIES.fields if field not in _FIXED)
_NEW = ("id", "connection_id", "name", "name_key", "is_added", "poll_at", "comments_since", "created_at")
_ON_CONFLICT: LiteralString = """ ON CONFLICT (connection_id, name_key) DO UPDATE SET is_watched = true,
    is_added = forge_repositories.is_added OR excluded.is_added,
    poll_at = CASE WHEN forge_repositories.is_watched THEN forge_repositories.poll_at ELSE excluded.poll_at END
    WHERE NOT forge_repositories.is_watched OR (excluded.is_added AND NOT forge_repositories.is_added)"""
_CLAIM: LiteralString = f"""UPDATE forge_repositories SET lease_holder = :holder, lease_until = :until,
    question = question + 1
WHERE (lease_until IS NULL OR lease_until <= :now) AND id IN (
    SELECT forge_repositories.id FROM forge_repositories
    JOIN forge_connections ON forge_connections.id = forge_repositories.connection_id
    WHERE forge_repositories.is_watched AND forge_repositories.poll_at <= :now
        AND (forge_repositories.lease_until IS NULL OR forge_repositories.lease_until <= :now)
        AND (forge_connections.away_until IS NULL OR forge_connections.away_until <= :now)
    ORDER BY forge_repositories.poll_at LIMIT :limit)
RETURNING {REPOSITORIES.columns}"""

_LATER: LiteralString = "CASE WHEN {0} < batch.question THEN batch.question ELSE {0} END"


async def watch(tx: Tx, connection_id: str, names: Sequence[str], *, is_added: bool) -> None:
    """Begin to watch repositories. Those that are watched stay as they are, and those that were given up continue."""
    made = {
        addresses.key(name): ForgeRepository(
            id=ids.new("frp"),
            connection_id=connection_id,
            name=name,
            name_key=addresses.key(name),
            is_added=is_added,
            poll_at=tx.moment,
            comments_since=tx.moment,
            created_at=tx.moment,
        )
        for name in sorted(names)
    }
    rows = [values(each, *_NEW) for each in made.values()]
    since = _NEW.index("comments_since")
    for row in rows:
        row[since] = tx.now - SKEW_SECONDS
    await tx.each(REPOSITORIES.insert_batch(*_NEW) + _ON_CONFLICT, REPOSITORIES.types_of(*_NEW), rows)


async def give_up(tx: Tx, repository_ids: Sequence[str]) -> None:
    """Watch repositories no longer that no module has as its source. Those that somebody has added stay."""
    await tx.each_id(
        "UPDATE forge_repositories SET is_watched = false FROM batch"
        " WHERE forge_repositories.id = batch.id AND NOT forge_repositories.is_added",
        sorted(repository_ids),
    )


async def get(tx: Tx, repository_id: str) -> ForgeRepository | None:
    return await REPOSITORIES.find(tx, id=repository_id)


async def hold(tx: Tx, repository_id: str) -> ForgeRepository | None:
    """Read a repository, and lock its row until the transaction ends. Only who holds it changes facts of its pull requests."""
    return await REPOSITORIES.hold(tx, id=repository_id)


async def named(tx: Tx, connection_id: str, name: str) -> ForgeRepository | None:
    """Return a repository by its name in any case, also if it is not watched any more."""
    return await REPOSITORIES.find(tx, connection_id=connection_id, name_key=addresses.key(name))


async def of_connection(tx: Tx, connection_id: str, after: str, limit: int) -> list[ForgeRepository]:
    return await REPOSITORIES.all(
        tx,
        "FROM forge_repositories WHERE connection_id = :id AND is_watched AND id > :after ORDER BY id LIMIT :limit",
        id=connection_id,
        after=after,
        limit=limit,
    )


async def watched(tx: Tx) -> list[ForgeRepository]:
    """Return the repositories that all connections watch."""
    return await REPOSITORIES.all(tx, "FROM forge_repositories WHERE is_watched ORDER BY id")


async def save(tx: Tx, before: ForgeRepository, after: ForgeRepository) -> None:
    """Write a repository that the transaction holds."""
    if before != after:
        await tx.run(
            f"UPDATE forge_repositories SET {assignments(*_CHANGEABLE)} WHERE id = :id",
            id=after.id,
            **to_params(after, *_CHANGEABLE),
        )


async def delete(tx: Tx, repository_id: str) -> None:
    await tx.run("DELETE FROM forge_repositories WHERE id = :id", id=repository_id)


async def ask(tx: Tx, repository_id: str) -> int:
    """Return the number of a new question about a repository. It is taken before the forge is asked."""
    row = await tx.one(
        "UPDATE forge_repositories SET question = question + 1 WHERE id = :id RETURNING question", id=repository_id
    )
    return row["question"] if row else 0


async def claim_due(tx: Tx, holder: str, seconds: float, limit: int) -> list[ForgeRepository]:
    """Claim repositories whose turn has come, each with the number of a new question. No other server polls them meanwhile.

    The condition on the lease is repeated outside: PostgreSQL evaluates it again after it has waited for another server.
    """
    rows = await tx.all(_CLAIM, holder=holder, until=tx.now + seconds, now=tx.now, limit=limit)
    return sorted(rows_to(ForgeRepository, rows), key=lambda each: each.poll_at)


async def renew_leases(tx: Tx, holder: str, repository_ids: Sequence[str], seconds: float) -> None:
    """Keep what a server has claimed and still asks about."""
    await tx.each(
        "UPDATE forge_repositories SET lease_until = batch.until FROM batch"
        " WHERE forge_repositories.id = batch.id AND forge_repositories.lease_holder = batch.holder",
        {"id": "text", "holder": "text", "until": "double precision"},
        [(each, holder, tx.now + seconds) for each in sorted(repository_ids)],
    )


async def save_unchanged(tx: Tx, holder: str, polled: Sequence[tuple[ForgeRepository, datetime]]) -> None:
    """Write that these repositories were polled and nothing has changed, and when each is polled again.

    The tags stay: an answer about a pull request or a branch that has arrived meanwhile may have emptied them.
    """
    await tx.each(
        f"""UPDATE forge_repositories SET polled_at = batch.now, poll_at = batch.poll_at, lease_holder = NULL, lease_until = NULL,
            list_question = {_LATER.format("list_question")}, default_question = {_LATER.format("default_question")}
        FROM batch WHERE forge_repositories.id = batch.id AND forge_repositories.lease_holder = batch.holder""",
        {
            "id": "text",
            "holder": "text",
            "question": "bigint",
            "now": "double precision",
            "poll_at": "double precision",
        },
        [
            (each.id, holder, each.question, tx.now, at.timestamp())
            for each, at in sorted(polled, key=lambda found: found[0].id)
        ],
    )


async def has_due(tx: Tx) -> bool:
    """Return whether there is a repository whose turn has come. A claim writes also where it finds nothing."""
    row = await tx.one(
        "SELECT 1 AS found FROM forge_repositories WHERE is_watched AND poll_at <= :now LIMIT 1", now=tx.now
    )
    return row is not None


async def next_poll(tx: Tx) -> float | None:
    """Return when the turn of the next repository comes that no server asks about now."""
    return await tx.value(
        """SELECT min(CASE WHEN forge_connections.away_until > forge_repositories.poll_at
            THEN forge_connections.away_until ELSE forge_repositories.poll_at END) AS next FROM forge_repositories
        JOIN forge_connections ON forge_connections.id = forge_repositories.connection_id
        WHERE forge_repositories.is_watched
            AND (forge_repositories.lease_until IS NULL OR forge_repositories.lease_until <= :now)""",
        now=tx.now,
    )


async def check_now(tx: Tx, connection_id: str) -> None:
    """Let the names and hooks of all repositories of a connection be looked at at once."""
    await tx.run(
        "UPDATE forge_repositories SET checked_at = NULL, poll_at = :now WHERE connection_id = :id AND is_watched",
        id=connection_id,
        now=tx.now,
    )


async def count_added(tx: Tx, connection_id: str) -> int:
    return await tx.value(
        "SELECT count(*) AS found FROM forge_repositories WHERE connection_id = :id AND is_added", id=connection_id
    )


async def poll_now(tx: Tx, connection_id: str) -> None:
    """Let the repositories of a connection be polled at once, because it can reach them again."""
    await tx.run(
        "UPDATE forge_repositories SET poll_at = :now WHERE connection_id = :id AND poll_at > :now",
        id=connection_id,
        now=tx.now,
    )
