"""Finds the principal as which somebody acts who is known by an id only, because the server continues what they have begun."""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.identity.people import sessions, store, user_reads
from terracrew.server.principals.model import Principal


async def principal(tx: Tx, actor_id: str, organization_id: str) -> Principal | None:
    """Return a user or service account as it acts in the organization; None if it no longer exists, is disabled or cannot act there."""
    user = await store.find_user(tx, actor_id)
    if user is not None and user.id == actor_id:
        acting = msgspec.structs.replace(sessions.person(user, None), organization_id=organization_id)
        return None if user.is_disabled else acting
    account = await user_reads.enabled_account(tx, actor_id)
    if account is None or account["organization_id"] != organization_id:
        return None
    return Principal("service_account", actor_id, account["name"], organization_id)
