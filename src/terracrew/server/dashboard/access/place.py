"""The place of the tree that an access page is about, and what a new role there would allow somebody to do, in words."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Literal

import msgspec

from terracrew.api.access import Role, RoleListed, ServiceAccount
from terracrew.api.groups import Group
from terracrew.server.dashboard import render
from terracrew.server.dashboard.access import words
from terracrew.server.dashboard.words import counted
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_reads, subjects
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import inheritance, reads, service
from terracrew.server.tree.modules import reads as module_reads
from terracrew.server.tree.modules import service as modules

PlaceKind = Literal["group", "module"]


class AccessPlace(msgspec.Struct, frozen=True):
    """A group or a module, and what the reader may do with the roles at it."""

    kind: PlaceKind
    id: str
    organization_id: str
    path: str
    name: str
    """Its own name; empty for the organization."""
    lineage: list[Group]
    """The groups whose roles apply to it, the nearest first; a group itself is the first one."""
    modules: int
    """How many modules a role at it applies to, counted up to one more than `render.MAX_COUNTED`."""
    may_change: bool
    """Whether the reader may grant and revoke roles."""

    @property
    def above(self) -> list[Group]:
        """Return the groups above it, the organization first."""
        return self.lineage[::-1] if self.kind == "module" else self.lineage[:0:-1]

    @property
    def base(self) -> str:
        """Return the address of its page."""
        return f"/dashboard/{self.kind}s/{self.id}"

    @property
    def place(self) -> Place:
        if self.kind == "module":
            return authorize.module(self.organization_id, self.path)
        return authorize.group(self.organization_id, self.path)


class Effect(msgspec.Struct, frozen=True):
    """What a role would change for a principal."""

    name: str
    sentence: str
    notes: list[str]
    """What limits it, what it replaces, and whether it adds nothing."""


async def read(tx: Tx, who: Principal, kind: PlaceKind, reference: str, verb: Verb) -> AccessPlace:
    """Find a group or module of the reader's organization. The reader must have the right to do `verb` with it.

    Roles are listed and granted by the path of the place, so a place of another organization is not found here.
    """
    if kind == "module":
        module = await modules.find(tx, who, reference, verb)
        found: tuple[str, str, str, str] = module.id, module.organization_id, module.path, module.name
        lineage, count = await reads.lineage(tx, module.group_id), 1
        place = modules.place(module)
    else:
        group = await service.find(tx, who, reference)
        place = service.place(group)
        await authorize.require(tx, who, verb, place, service.unseen(reference))
        found = group.id, group.organization_id, group.path, group.name
        lineage = await reads.lineage(tx, group.id)
        count = await module_reads.count_below(tx, group, render.MAX_COUNTED + 1)
    if place.organization_id != who.organization_id:
        raise service.unseen(reference)
    may_change = await authorize.may(tx, who, Verb.ACCESS_WRITE, place)
    return AccessPlace(kind, *found, lineage=lineage, modules=count, may_change=may_change)


async def read_effect(tx: Tx, place: AccessPlace, principal: str, role: Role, days: int | None) -> Effect:
    """Return what a role at a place would allow this principal, by name, id or path, to do."""
    subject = await subjects.find(tx, place.organization_id, principal)
    held = await role_reads.of_principal(tx, subject.id, place.organization_id)
    applying = [each for each in held if authorize.covers(each.place_kind, each.path, place.place)]
    kind = "service_account" if isinstance(subject, ServiceAccount) else "user"
    sentence = f"{subject.name} will be able to {words.ROLE_EFFECTS[role].format(modules=_modules(place))}."
    if days is not None:
        ends = tx.moment + timedelta(days=days)
        sentence = f"{sentence[:-1]}, until {ends.day} {ends:%b %Y}."
    may_approve = words.rank(role) >= words.rank(Role.APPROVER)
    limit = approval_limit(place.lineage, subject.name, kind) if may_approve else ""
    notes = [*filter(None, [limit]), *_before(place, role, applying)]
    if subject.is_disabled:
        notes.append(f"{subject.name} is disabled and cannot use it.")
    return Effect(subject.name, sentence, notes)


def _modules(place: AccessPlace) -> str:
    if place.kind == "module":
        return place.path
    if place.modules == 0:
        return f"the modules of {place.path or 'the organization'}, of which there are none yet"
    if place.modules > render.MAX_COUNTED:
        return f"more than {render.MAX_COUNTED:,} modules"
    return counted(place.modules, "module")


def approval_limit(lineage: Sequence[Group], name: str, kind: str) -> str:
    """Return what somebody with the right to approve may not approve in the first group of a lineage; empty if nothing."""
    setting = "service_account_approval" if kind == "service_account" else "self_approval"
    found = inheritance.effective_rule(lineage, setting)
    if found.value:
        return ""
    where = f"{found.origin.path or 'the organization'} does" if found.origin else "the default settings do"
    if kind == "service_account":
        return f"{name} cannot approve plans: {where} not allow service accounts to approve."
    return f"Not on jobs that {name} started: {where} not allow self-approval."


def _before(place: AccessPlace, role: Role, applying: Sequence[RoleListed]) -> list[str]:
    notes: list[str] = []
    for each in applying:
        is_here = (each.place_kind, each.path) == (place.kind, place.path)
        where = each.path or "the organization"
        if is_here and each.role != role:
            notes.append(f"It replaces the role {each.role.value} at this place.")
        elif is_here:
            notes.append(f"They are {each.role.value} here already; only the date on which it ends may change.")
        elif words.rank(each.role) >= words.rank(role):
            notes.append(f"It adds nothing while they are {each.role.value} of {where}.")
    return notes
