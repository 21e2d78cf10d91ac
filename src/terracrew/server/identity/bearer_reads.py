"""Reads whose token a connection shows, for many connections with one statement: every request and every executor asks it."""

from collections.abc import Sequence

from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.identity.access import credential_store
from terracrew.server.identity.people import store
from terracrew.server.principals.model import AttemptScope


class BearerReads:
    """Each of them takes the digest of a token."""

    def __init__(self, db: Database) -> None:
        self.user = db.grouped_reads(_users)
        self.attempt = db.grouped_reads(_attempts)


async def _users(tx: Tx, digests: list[str]) -> Sequence[tuple[Row, float] | None]:
    """Return the user of each API token that is valid, with the time of the read."""
    found = await store.token_users(tx, digests)
    return [(found[each], tx.now) if each in found else None for each in digests]


async def _attempts(tx: Tx, digests: list[str]) -> Sequence[AttemptScope | None]:
    """Return the attempt of each hub credential."""
    found = await credential_store.attempts_by_hub_credentials(tx, digests)
    return [found.get(each) for each in digests]
