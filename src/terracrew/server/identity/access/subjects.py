"""Finds the user or the service account that a role, an explanation or a list is about."""

import msgspec

from terracrew.api.access import ServiceAccount, User
from terracrew.errors import NotFound
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_store
from terracrew.server.identity.access import store as access_store
from terracrew.server.identity.people import store
from terracrew.server.identity.people.sessions import person
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import tree_path as paths

ME = "me"
MAX_REFERENCE_CHARACTERS = 2000


def unknown(reference: str) -> NotFound:
    return NotFound(f"there is no user and no service account {reference[:200]!r} here")


async def find(tx: Tx, organization_id: str, reference: str) -> User | ServiceAccount:
    """Find a user by name or id, or a service account by id or path (`group/name`), among those of an organization.

    A user of another organization who has a role in this one is found as well. For everybody else the error is the same.
    """
    if not reference.isprintable() or len(reference) > MAX_REFERENCE_CHARACTERS:
        raise unknown(reference)
    if not reference.startswith("sac_"):
        user = await store.find_user(tx, reference)
        if user is not None and await is_of(tx, user, organization_id):
            return user
        group, name = paths.split(reference)
        account = await access_store.account_at(tx, organization_id, group, name)
    else:
        account = await access_store.find_account(tx, reference)
    if account is None or account.organization_id != organization_id:
        raise unknown(reference)
    return account


async def is_of(tx: Tx, user: User, organization_id: str) -> bool:
    """Return whether the user is one of an organization, or has a role in it."""
    return user.organization_id == organization_id or await role_store.is_member(tx, user.id, organization_id)


def principal(subject: User | ServiceAccount, organization_id: str) -> Principal:
    """Return the principal as which the user or service account acts in an organization."""
    if isinstance(subject, User):
        return msgspec.structs.replace(person(subject, None), organization_id=organization_id)
    return Principal("service_account", subject.id, subject.name, organization_id)
