"""Says in words what a new role would allow a person or a service account to do, before it is granted."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from terracrew.server.dashboard import nav
from terracrew.server.dashboard.access import words
from terracrew.server.dashboard.access.place import AccessPlace
from terracrew.server.dashboard.words import counted
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import role_reads, subjects
from terracrew.server.identity.access.model import RoleListed, ServiceAccount
from terracrew.server.principals import authorize
from terracrew.server.principals.model import Role
from terracrew.server.tree.groups import inheritance
from terracrew.server.tree.groups.model import Group


class Effect(msgspec.Struct, frozen=True):
    """What a role would change for a principal."""

    name: str
    sentence: str
    notes: list[str]
    """What limits it, what it replaces, and whether it adds nothing."""


async def read(tx: Tx, place: AccessPlace, principal: str, role: Role, days: int | None) -> Effect:
    """Return what a role at a place would allow this principal, by name, id or path, to do."""
    subject = await subjects.find(tx, place.organization_id, principal)
    held = await role_reads.of_principal(tx, subject.id, place.organization_id)
    applying = [each for each in held if authorize.covers(each.place_kind, each.path, place.place)]
    kind = "service_account" if isinstance(subject, ServiceAccount) else "user"
    sentence = f"{subject.name} will be able to {words.ROLE_EFFECTS[role].format(modules=_modules(place))}."
    if days is not None:
        ends = datetime.fromtimestamp(tx.now, UTC) + timedelta(days=days)
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
    if place.modules > nav.MAX_COUNTED:
        return f"more than {nav.MAX_COUNTED:,} modules"
    return counted(place.modules, "module")


def approval_limit(lineage: Sequence[Group], name: str, kind: str) -> str:
    """Return what somebody with the right to approve may not approve in the first group of a lineage; empty if nothing."""
    setting = "service_account_approval" if kind == "service_account" else "self_approval"
    found = inheritance.in_force(lineage, setting)
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
