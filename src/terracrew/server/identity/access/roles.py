"""Grants, revokes and lists the roles of users and service accounts."""

import asyncio

import msgspec

from terracrew.api.access import Role, RoleBinding, RoleListed, ServiceAccount, User
from terracrew.api.pages import Page
from terracrew.errors import Conflict, Forbidden, Invalid, NotFound
from terracrew.server.audit import service as audit
from terracrew.server.db.seam import Database, Tx
from terracrew.server.identity.access import role_reads, role_store, subjects
from terracrew.server.identity.people import acting, local_administrators, store
from terracrew.server.paging import page, start
from terracrew.server.principals import authorize, delegation
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import SYSTEM, Principal
from terracrew.server.tree.groups import reads as groups
from terracrew.server.tree.groups import tree_path as paths


class RoleQuery(msgspec.Struct, frozen=True):
    """Which roles to list."""

    principal: str | None = None
    """The name or id of a user or service account."""
    path: str | None = None
    """The path of a group or module: the roles at this place."""
    is_inherited: bool = False
    """Also list the roles that apply to this place from the groups above it."""


async def bind_role(
    tx: Tx,
    who: Principal,
    principal: str,
    role: Role,
    path: str,
    kind: str,
    expires_in_days: int | None = None,
) -> RoleBinding:
    """Give a role at a place to a user or a service account of the caller's organization.

    Only an administrator can give a user of another organization their first role in this one. A caller whose own right to
    grant roles ends, or whose API token or client secret ends, cannot grant a role that lasts longer.
    """
    organization_id = who.organization_id or ""
    place = place_of(organization_id, paths.parse(path), kind)
    await authorize.require(tx, who, Verb.ACCESS_WRITE, place)
    expires_at = await expiry(tx, who, place, expires_in_days)
    subject = await _subject(tx, who, organization_id, principal)
    if isinstance(subject, ServiceAccount) and not paths.is_within(path, subject.group):
        raise Invalid(f"{subject.name} belongs to `{subject.group}`: it can have roles there and below only")
    of = "user" if isinstance(subject, User) else "service_account"
    async with local_administrators.kept(tx, organization_id):  # it may take the place of the role of an owner
        binding = await role_store.bind_role(
            tx, organization_id, of, subject.id, role.value, kind, path, who.id, expires_at
        )
    details = {"principal": subject.id, "name": subject.name, "role": role.value, "kind": kind, "path": path}
    if binding.expires_at is not None:
        details["expires_at"] = binding.expires_at.isoformat(timespec="seconds")
    await audit.record(tx, who, "role.grant", "role", binding.id, details)
    if isinstance(subject, User) and subject.organization_id != organization_id:
        await acting.end_uncovered_logins(tx, subject.id)
    tx.wake("roles", subject.id)
    return binding


async def _subject(tx: Tx, who: Principal, organization_id: str, reference: str) -> User | ServiceAccount:
    if who.is_system_admin and reference.isprintable() and (user := await store.find_user(tx, reference)):
        return user
    return await subjects.find(tx, organization_id, reference)


async def expiry(tx: Tx, who: Principal, place: Place, days: int | None) -> float | None:
    """Return when a new role or secret ends: neither after the credential of the request nor after the caller's own role."""
    wanted = delegation.expiry(who, tx.now, days)
    last = await right_ends_at(tx, who, place)
    if last is None:
        return wanted
    if days is not None and wanted is not None and wanted > last:
        raise Forbidden(
            "your own role here ends earlier, and nothing that you grant can last longer: ask for fewer days"
        )
    return last if wanted is None else min(wanted, last)


async def right_ends_at(tx: Tx, who: Principal, place: Place) -> float | None:
    """Return when the caller's right to grant access at a place ends by itself; None if it does not."""
    decision = await authorize.decide(tx, who, Verb.ACCESS_WRITE, place)
    own = [each.expires_at for each in decision.applying if authorize.allows(frozenset({each.role}), Verb.ACCESS_WRITE)]
    ends = [at for at in own if at is not None]
    return max(ends) if ends and len(ends) == len(own) else None


async def unbind_role(tx: Tx, who: Principal, binding_id: str, at: Place | None = None) -> None:
    """Revoke a role. With `at`, a role at any other place is not found."""
    binding = await role_store.role(tx, binding_id)
    place = place_of(binding.organization_id, binding.path, binding.place_kind)
    if at is not None and at != place:
        raise role_store.no_role(binding_id)
    await authorize.require(tx, who, Verb.ACCESS_WRITE, place, role_store.no_role(binding_id))
    if binding.source:
        raise Conflict(
            "a rule of single sign-on gives this role: change the rule, or the person's groups, and the role goes"
        )
    async with local_administrators.kept(tx, binding.organization_id):
        await role_store.unbind_role(tx, binding.id)
    name = await role_reads.principal_name(tx, binding.principal_id)
    details = {"principal": binding.principal_id, "name": name, "role": binding.role.value, "path": binding.path}
    await audit.record(tx, who, "role.revoke", "role", binding.id, details, organization_id=binding.organization_id)
    tx.wake("roles", binding.principal_id)


async def listing(tx: Tx, who: Principal, query: RoleQuery, after: str | None, limit: int) -> Page[RoleListed]:
    """Return the roles at the places whose access the caller may read, or those that apply to one place."""
    organization_id = who.organization_id or ""
    if query.path is not None:
        return await _at(tx, who, query, after, limit)
    seen = await authorize.visible(tx, who, Verb.ACCESS_READ)
    principal_id: str | None = None
    if query.principal is not None:
        try:
            principal_id = (await subjects.find(tx, organization_id, query.principal)).id
        except NotFound:
            return Page([])
    found = await role_reads.listing(tx, seen, organization_id, principal_id, start(after), limit + 1)
    return page(found, limit)


async def _at(tx: Tx, who: Principal, query: RoleQuery, after: str | None, limit: int) -> Page[RoleListed]:
    organization_id, path = who.organization_id or "", query.path or ""
    if query.principal is not None:
        raise Invalid("ask either for the roles of a principal or for those at a path, not for both")
    place, group_id, module_id = await find_place(tx, organization_id, path)
    await authorize.require(tx, who, Verb.ACCESS_READ, place, no_place(path))
    found = await role_reads.at_place(tx, group_id, module_id, start(after), limit + 1, is_inherited=query.is_inherited)
    return page(found, limit)


async def find_place(tx: Tx, organization_id: str, path: str) -> tuple[Place, str, str | None]:
    """Return the module or group at a path, the id of the group (for a module: of its group), and the id of the module."""
    paths.parse(path)
    module_id = await role_store.module_id_at(tx, organization_id, path) if path else None
    group_path = paths.split(path)[0] if module_id else path
    group_id = await groups.id_at(tx, organization_id, group_path)
    if group_id is None:
        raise no_place(path)
    return place_of(organization_id, path, "module" if module_id else "group"), group_id, module_id


def no_place(path: str) -> NotFound:
    return NotFound(f"there is no group or module `{path}` here, or you may not see it")


def place_of(organization_id: str, path: str, kind: str) -> Place:
    return authorize.module(organization_id, path) if kind == "module" else authorize.group(organization_id, path)


PERIOD_SECONDS = 30.0
MAX_PER_TRANSACTION = 200


class RoleExpiry:
    """Removes roles that have expired. They allow nothing any more; this ends the streams that were opened with them."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def run(self) -> None:
        while True:
            while await self.step() == MAX_PER_TRANSACTION:
                pass
            await asyncio.sleep(PERIOD_SECONDS)

    async def step(self) -> int:
        """Remove expired roles, and return how many. Without any, it only reads."""
        if not await self._db.read(role_store.has_expired):
            return 0

        async def work(tx: Tx) -> int:
            gone = await role_store.delete_expired(tx, MAX_PER_TRANSACTION)
            changes: list[audit.Change] = []
            for binding in gone:
                name = await role_reads.principal_name(tx, binding.principal_id)
                details = {"principal": binding.principal_id, "name": name}
                details |= {"role": binding.role.value, "path": binding.path}
                changes.append(
                    audit.Change(SYSTEM, "role.expire", "role", binding.id, details, binding.organization_id)
                )
                tx.wake("roles", binding.principal_id)
            if changes:
                await audit.record_all(tx, changes)
            return len(gone)

        return await self._db.write(work)
