"""Creates, renames and deletes organizations. Only administrators of the server may."""

from terracrew.api.groups import Organization
from terracrew.errors import Conflict, NotFound
from terracrew.server.announcements import channel_store as channels
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.tree.groups import organization_store, service, store
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.inputs import store as inputs
from terracrew.server.tree.step_settings import store as step_settings


def unseen(reference: str) -> NotFound:
    return NotFound(f"there is no organization {reference[:200]!r}, or you may not see it")


async def find(tx: Tx, reference: str) -> Organization:
    found = await organization_store.find(tx, reference)
    if found is None:
        raise unseen(reference)
    return found


async def create(tx: Tx, who: Principal, name: str) -> Organization:
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    made = await store.insert_organization(tx, paths.name(name))
    if made is None:
        raise Conflict(f"there is an organization {name!r} already")
    await store.insert(tx, made.id, None, "", "")
    await _record(tx, who, "organization.create", made, {"name": name})
    return made


async def rename(tx: Tx, who: Principal, reference: str, name: str) -> Organization:
    """Rename an organization. Runners and programs that name it in their client id must be told its new name."""
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    found = await find(tx, reference)
    taken = await organization_store.find(tx, paths.name(name))
    if taken is not None and taken.id != found.id:
        raise Conflict(f"there is an organization {name!r} already")
    await organization_store.rename(tx, found.id, name)
    await _record(tx, who, "organization.rename", found, {"name": name, "before": found.name})
    return await find(tx, found.id)


async def delete(tx: Tx, who: Principal, reference: str) -> Organization:
    """Delete an organization that has nothing in it. Roles of users of other organizations end."""
    await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)
    found = await find(tx, reference)
    root_id = await organization_store.hold(tx, found.id)
    left = {kind: count for kind, count in (await organization_store.contents(tx, found.id)).items() if count}
    if left:
        raise Conflict(f"organization {found.name} is not empty: it has {service.contents_in_words(left)}", **left)
    if root_id is not None:
        await assignments.forget(tx, root_id)
        await inputs.forget(tx, root_id)
        await step_settings.forget(tx, root_id)
        await channels.forget(tx, root_id)
        await store.delete(tx, root_id)  # the roles at the root group are deleted with it
    await organization_store.delete(tx, found.id)
    await _record(tx, who, "organization.delete", found, {"name": found.name})
    return found


async def _record(tx: Tx, who: Principal, action: str, found: Organization, details: dict[str, object]) -> None:
    await audit.record(tx, who, action, "organization", found.id, details, organization_id=found.id)
    tx.wake("tree", found.id)
