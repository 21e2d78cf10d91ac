"""Checks whether somebody who did something earlier still has the right to do it."""

from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.people import acting
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb


async def hold(tx: Tx, actor_id: str, organization_id: str) -> None:
    """Keep the rights of a user or service account as they are until the transaction ends.

    Whoever takes away a role, or disables or deletes the account, waits for this transaction. What this transaction decides
    by these rights has therefore been decided before they end.
    """
    await role_store.hold_rights(tx, actor_id, organization_id)


async def has(tx: Tx, actor_id: str, verb: Verb, place: Place) -> bool:
    """Return whether a user or service account exists, is not disabled, and may do this at the place now."""
    who = await acting.principal(tx, actor_id, place.organization_id or "")
    return who is not None and (await authorize.decide(tx, who, verb, place)).is_allowed
