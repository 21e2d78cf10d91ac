"""Creates, changes, finds and deletes groups, and checks that the caller may do so."""

from collections.abc import Mapping
from typing import Any

import msgspec

from terracrew import ids
from terracrew.api import fields
from terracrew.api.groups import Group, GroupChange, NewGroup, Organization
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.protocol.cloud import CloudIdentities
from terracrew.server.announcements import channel_store as channels
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Tx
from terracrew.server.figures import store as figures
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import AUDIENCE, Principal
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.tree.groups import store
from terracrew.server.tree.groups import tree_path as paths
from terracrew.server.tree.inputs import store as inputs
from terracrew.server.tree.step_settings import store as step_settings


async def ensure_organization(tx: Tx, name: str) -> Organization:
    """Return the organization of that name. If it does not exist, create it with its root group."""
    if made := await store.insert_organization(tx, name):
        await store.insert(tx, made.id, None, "", "")
    return made or await store.organization_named(tx, name)


def place(group: Group) -> authorize.Place:
    return authorize.group(group.organization_id, group.path)


def unseen(reference: str) -> NotFound:
    return NotFound(f"there is no group `{reference}` here, or you may not see it")


async def find(tx: Tx, who: Principal, reference: str) -> Group:
    """Find a group by its id, or by its path in the caller's organization, which is `/` itself."""
    if ids.is_id("grp", reference):
        group = await store.get(tx, ids.parse("grp", reference))
    else:
        path = "" if reference == "/" else paths.parse(reference)
        group = await store.at(tx, who.organization_id or "", path)
    if group is None:
        raise unseen(reference)
    return group


async def at(tx: Tx, who: Principal, path: str) -> Group:
    """Find a group by its path in the caller's organization, and by nothing else: an id without its kind also reads as a path."""
    group = await store.at(tx, who.organization_id or "", path)
    if group is None:
        raise unseen(path)
    return group


async def show(tx: Tx, who: Principal, reference: str) -> Group:
    group = await find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_READ, place(group), unseen(reference))
    return group


async def hold(tx: Tx, group: Group, name: str) -> str:
    """Reserve a name in a group until the transaction ends: groups and modules share one set of paths."""
    await store.hold(tx, group.id)
    path = paths.parse(paths.join(group.path, paths.name(name)))
    if await store.at(tx, group.organization_id, path):
        raise Conflict(f"there is a group `{path}` already", path=path)
    if await store.is_module(tx, group.organization_id, path):
        raise Conflict(f"there is a module `{path}` already", path=path)
    return path


async def hold_organization(tx: Tx, organization_id: str) -> None:
    """Lock the root group of an organization until the transaction ends, for what concerns several of its groups."""
    root = await store.at(tx, organization_id, "")
    if root is not None:
        await store.hold(tx, root.id)


async def create(tx: Tx, who: Principal, new: NewGroup, make_parents: bool) -> Group:
    path = paths.parse(new.path)
    if not path:
        raise Invalid("the path is empty: it names the organization itself, which exists already")
    organization_id = who.organization_id or ""
    parent_path, name = paths.split(path)
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(organization_id, parent_path))
    parent = await store.at(tx, organization_id, parent_path)
    if parent is None:
        if not make_parents:
            raise NotFound(
                f"there is no group `{parent_path}` to put it in: create it first, or have it created, too "
                "(`--parents` on the command line, `parents=true` in the API)"
            )
        parent = await create(tx, who, NewGroup(path=parent_path), make_parents)
    await hold(tx, parent, name)
    group = await store.insert(tx, organization_id, parent, name, path, new)
    check_cloud(group.cloud)
    given: dict[str, Any] = msgspec.to_builtins(new)  # without fields that have their defaults
    await audit.record(tx, who, "group.create", "group", group.id, given | {"path": path})
    tx.wake("tree", group.id)
    return group


async def change(tx: Tx, who: Principal, reference: str, wanted: GroupChange) -> Group:
    found = await find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, place(found), unseen(reference))
    await store.hold(tx, found.id)
    group = await store.get(tx, found.id)  # again, because another request may have changed it before the lock
    if group is None:
        raise unseen(reference)
    after = fields.changed(group, wanted)
    check_cloud(after.cloud)
    if after != group:
        await store.update(tx, after)
        given = {name: getattr(after, name) for name in fields.given(wanted)}
        details, organization_id = {"path": group.path, **msgspec.to_builtins(given)}, group.organization_id
        await audit.record(tx, who, "group.update", "group", group.id, details, organization_id=organization_id)
        tx.wake("tree", group.id)
    return after


async def contents(tx: Tx, group: Group) -> dict[str, int]:
    """Return how many things of each kind are directly in a group; kinds of which there are none are left out."""
    return {kind: count for kind, count in (await store.contents(tx, group.id)).items() if count}


def contents_in_words(counts: Mapping[str, int]) -> str:
    """Return how many things of each kind there are: `1 group, 2 runners`."""
    return ", ".join(f"{count} {_in_words(kind, count)}" for kind, count in counts.items())


def _in_words(kind: str, count: int) -> str:
    named = kind.replace("_", " ")
    if count != 1:
        return named
    return f"{named.removesuffix('ies')}y" if named.endswith("ies") else named.removesuffix("s")


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    group = await find(tx, who, reference)
    await authorize.require(tx, who, Verb.TREE_WRITE, place(group), unseen(reference))
    if group.parent_id is None:
        raise Conflict("this is the organization itself, which cannot be deleted")
    await store.hold(tx, group.id)
    left = await contents(tx, group)
    if left:
        raise Conflict(f"group `{group.path}` is not empty: it has {contents_in_words(left)}", **left)
    await assignments.forget(tx, group.id)
    await inputs.forget(tx, group.id)
    await step_settings.forget(tx, group.id)
    await channels.forget(tx, group.id)
    await figures.leave_group(tx, group.id, group.parent_id)
    await store.delete(tx, group.id)
    details, organization_id = {"path": group.path}, group.organization_id
    await audit.record(tx, who, "group.delete", "group", group.id, details, organization_id=organization_id)
    tx.wake("tree", group.id)


async def listing(tx: Tx, who: Principal, parent: str | None, after: str | None, limit: int) -> Page[Group]:
    """Return the groups that the reader may see, and the groups on the way to them."""
    seen = await authorize.visible(tx, who, Verb.TREE_READ)
    organization_id = who.organization_id or ""
    parent_id: str | None = None
    if parent is not None:
        group = await on_the_way(tx, who, parent, seen)
        organization_id, parent_id = group.organization_id, group.id

    return page(await store.within(tx, seen, organization_id, parent_id, start(after), limit + 1), limit)


async def on_the_way(tx: Tx, who: Principal, reference: str, seen: authorize.Visible) -> Group:
    """Find a group that the reader may see, or that leads to something that they may see."""
    group = await find(tx, who, reference)
    if not _is_seen(seen, group):
        raise unseen(reference)
    return group


def _is_seen(seen: authorize.Visible, group: Group) -> bool:
    if seen.covers(place(group)):
        return True
    return group.organization_id == seen.organization_id and seen.leads_to(group.path)


def check_cloud(cloud: CloudIdentities) -> None:
    """Refuse identities whose token would be for this server itself."""
    for name, audience in cloud.audiences().items():
        if audience.strip().lower() == AUDIENCE:
            field = f"cloud.{name}.audience"
            raise Invalid.in_field(field, f"{audience!r} is this server itself: name the cloud that is to trust it")
