"""Makes, changes, finds and deletes cloud identities, and checks that the caller may do so.

An identity is a way into an account, so to make or change one takes the right to grant access in its group. Whoever may change
runners of the group, or of a group below it, may use it.
"""

import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from terracrew import ids
from terracrew.api import fields
from terracrew.api.access import RunnerReference
from terracrew.api.cloud_identities import IdentityChange, NewIdentity
from terracrew.api.pages import Page
from terracrew.clouds.model import CloudSettings, KubernetesCluster
from terracrew.errors import Conflict, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.cloud_identities import reads, rules, store
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.db.seam import Database, Tx
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import organizations
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path as paths

MAX_IDENTITIES = 200
"""For each organization."""
MAX_REFERENCE_CHARACTERS = 2000
MAX_NAMED_RUNNERS = 5
_RANDOM_BYTES = 16


async def create(db: Database, who: Principal, wanted: NewIdentity) -> IdentityRecord:
    paths.name(wanted.name)
    path = paths.parse(wanted.group)
    settings, audience = rules.checked(wanted), rules.checked_audience(wanted.kind, wanted.audience)

    async def work(tx: Tx) -> IdentityRecord:
        organization_id = who.organization_id or ""
        place = authorize.group(organization_id, wanted.group)
        await authorize.require(tx, who, Verb.ACCESS_WRITE, place)
        await _require_own_cluster(tx, who, settings)
        group = await groups.at(tx, who, path)
        organization = await organizations.find(tx, organization_id)
        if await store.count(tx, organization_id) >= MAX_IDENTITIES:
            raise Conflict(f"the organization has {MAX_IDENTITIES} cloud identities: delete one that is no longer used")
        made = IdentityRecord(
            id=ids.new("cid"),
            organization_id=organization_id,
            group_id=group.id,
            group=group.path,
            name=wanted.name,
            description=wanted.description,
            kind=wanted.kind,
            settings=settings,
            external_id=secrets.token_hex(_RANDOM_BYTES),
            subject=new_subject(organization.name, wanted.name),
            audience=audience,
            created_by=who.id,
            created_at=tx.moment,
        )
        await store.insert(tx, made)
        await _record(tx, who, made, "cloud_identity.create", {"location": rules.location(settings)})
        return made

    try:
        return await db.write(work)
    except Conflict as error:
        raise _explained(error, wanted.name) from None


def new_subject(organization: str, name: str) -> str:
    """Make a `sub` that no other identity has or will have. Names contain no colon, so its parts cannot be confused."""
    return f"organization:{organization}:cloud-identity:{name}:{secrets.token_hex(_RANDOM_BYTES)}"


async def change(db: Database, who: Principal, reference: str, wanted: IdentityChange) -> IdentityRecord:
    if wanted.name is not UNSET:
        paths.name(wanted.name)

    async def work(tx: Tx) -> IdentityRecord:
        found = await find(tx, who, reference, Verb.ACCESS_WRITE)
        await store.hold(tx, found.id)
        before = await store.get(tx, found.id)  # again, because another request may have changed it before the lock
        asked = fields.changed(as_new(before), wanted)
        settings = rules.checked(asked)
        audience = rules.checked_audience(before.kind, asked.audience)
        await _require_own_cluster(tx, who, settings)
        await _require_same_location(tx, before, settings)
        after = msgspec.structs.replace(
            before, name=asked.name, description=asked.description, settings=settings, audience=audience
        )
        if after == before:
            return before
        await store.update(tx, after)
        await _record(tx, who, after, "cloud_identity.change", {"changed": _changed(before, after)})
        return after

    try:
        return await db.write(work)
    except Conflict as error:
        raise _explained(error, str(wanted.name)) from None


async def delete(tx: Tx, who: Principal, reference: str) -> None:
    """Delete an identity that no runner uses. Another one of the same name will have another external id and subject."""
    found = await find(tx, who, reference, Verb.ACCESS_WRITE)
    await store.hold(tx, found.id)
    users = (await reads.runners_of(tx, found.id))[found.id]
    if users:
        raise Conflict(
            f"the cloud identity {found.path} is used by {_named(users)}: remove what is deployed first "
            "(`terracrew runner destroy`), because nothing else can remove it",
            runners=[each.path for each in users],
        )
    await store.delete(tx, found.id)
    await _record(tx, who, found, "cloud_identity.delete")


async def find(tx: Tx, who: Principal, reference: str, verb: Verb = Verb.RUNNER_READ) -> IdentityRecord:
    """Find an identity by its id or its path (`group/name`), if the caller has the right to do `verb` in its group."""
    unseen = store.missing(reference)
    if ids.is_id("cid", reference):
        found = await store.find(tx, ids.parse("cid", reference))
        if found is None:
            raise unseen
        await authorize.require(tx, who, verb, place(found), unseen)
        return found
    is_path = reference.isprintable() and len(reference) <= MAX_REFERENCE_CHARACTERS
    group, name = paths.split(reference) if is_path else ("", "")
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, verb, authorize.group(organization_id, group), unseen)
    found = await store.at(tx, organization_id, group, name) if is_path else None
    if found is None:
        raise unseen
    return found


async def find_usable(tx: Tx, who: Principal, reference: str, group: str) -> IdentityRecord:
    """Find an identity by its id or path that a runner of this group may use, if the caller may change runners there.

    The identity may be of a group above, in which the caller has no role.
    """
    organization_id = who.organization_id or ""
    await authorize.require(tx, who, Verb.RUNNER_WRITE, authorize.group(organization_id, group))
    usable = await reads.usable_in(tx, organization_id, group)
    wanted = ids.parse("cid", reference) if ids.is_id("cid", reference) else reference
    found = next((each for each in usable if wanted in (each.id, each.path)), None)
    if found is not None:
        return found
    where = f"runners of the group `{group}`" if group else "runners of the organization's root"
    known = ", ".join(each.path for each in usable)
    remedy = f"they may use {known}" if known else "there is none that they may use: create one first"
    raise NotFound(f"there is no cloud identity {reference[:200]!r} for {where}: {remedy}")


async def hold_usable(tx: Tx, who: Principal, reference: str, group: str) -> IdentityRecord:
    """Find an identity as `find_usable` does, and keep it from being deleted or changed until the transaction ends."""
    found = await find_usable(tx, who, reference, group)
    await store.hold(tx, found.id)
    return await find_usable(tx, who, found.id, group)


async def listing(tx: Tx, who: Principal, after: str | None, limit: int) -> Page[IdentityRecord]:
    """Return the identities in the groups whose runners the caller may see."""
    visible = await authorize.visible(tx, who, Verb.RUNNER_READ)
    return page(await reads.seen(tx, who.organization_id or "", visible, start(after), limit + 1), limit)


def place(record: IdentityRecord) -> authorize.Place:
    return authorize.group(record.organization_id, record.group)


async def _require_own_cluster(tx: Tx, who: Principal, settings: CloudSettings) -> None:
    """Raise an error unless the caller may let runners be started as the pod that the server itself is.

    Nothing in the cluster says which organization the server acts for, so only an administrator may point it at its own cluster.
    A role in AWS says that with the external id.
    """
    if isinstance(settings, KubernetesCluster) and settings.way == "workload":
        await authorize.require(tx, who, Verb.SERVER_ADMIN, authorize.SERVER)


async def _require_same_location(tx: Tx, before: IdentityRecord, settings: CloudSettings) -> None:
    """Raise an error if runners are deployed at another place: what was made for them could not be found there again."""
    was, will_be = rules.location(before.settings), rules.location(settings)
    if was == will_be:
        return
    users = (await reads.runners_of(tx, before.id))[before.id]
    if users:
        raise Conflict(
            f"the cloud identity {before.path} is for {was}, where {_named(users)} is deployed: remove that first, or "
            f"create another identity for {will_be}",
            runners=[each.path for each in users],
        )


def _named(runners: Sequence[RunnerReference]) -> str:
    shown = [each.path for each in runners[:MAX_NAMED_RUNNERS]]
    more = len(runners) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def as_new(record: IdentityRecord) -> NewIdentity:
    """Return the identity as somebody would ask for it, so that a change is checked like a new one."""
    settings: dict[str, Any] = msgspec.structs.asdict(record.settings)
    settings.pop("external_id", None)
    return fields.created(NewIdentity, record, **settings)


def _changed(before: IdentityRecord, after: IdentityRecord) -> list[str]:
    was, now = msgspec.structs.asdict(as_new(before)), msgspec.structs.asdict(as_new(after))
    return [field for field, value in now.items() if was[field] != value]


def _explained(error: Conflict, name: str) -> Conflict:
    if error.details.get("constraint") != "cloud_identities_name":
        return error
    return Conflict(f"there is a cloud identity {name!r} in that group already")


async def _record(
    tx: Tx, who: Principal, record: IdentityRecord, action: str, details: dict[str, Any] | None = None
) -> None:
    facts = {"name": record.name, "group": record.group, **(details or {})}
    await audit.record(tx, who, action, "cloud_identity", record.id, facts, organization_id=record.organization_id)
