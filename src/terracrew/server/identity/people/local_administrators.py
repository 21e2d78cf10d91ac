"""Keeps somebody in an organization who can log in while its provider is away.

Invariant: while an organization wants its people to log in by single sign-on only, somebody of it has a password and the right to use
it. What may end that right happens within `kept`.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from terracrew.errors import Conflict
from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import user_reads
from terracrew.server.tree.groups import organization_store

NOBODY = (
    "nobody of the organization could log in while its provider is away: first give an owner of the organization, whose role a "
    "person has granted without an end, a password"
)


async def require_one(tx: Tx, organization_id: str) -> None:
    """Refuse to make single sign-on mandatory where nobody could log in without it.

    The row of the organization is locked, here and below: two administrators cannot remove each other at once.
    """
    await organization_store.hold_row(tx, organization_id)
    if not await user_reads.has_local_administrator(tx, organization_id):
        raise Conflict(NOBODY)


@asynccontextmanager
async def kept(tx: Tx, organization_id: str) -> AsyncGenerator[None]:
    """Refuse what takes its last local administrator from an organization with mandatory single sign-on."""
    await organization_store.hold_row(tx, organization_id)
    is_required = await user_reads.is_sign_on_required(tx, organization_id)
    is_kept = is_required and await user_reads.has_local_administrator(tx, organization_id)
    yield
    if is_kept and not await user_reads.has_local_administrator(tx, organization_id):
        raise Conflict(f"{NOBODY}, or let people log in with passwords again")
