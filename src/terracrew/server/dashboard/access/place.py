"""The place of the tree that an access page is about: a group, the organization, or a module."""

from typing import Literal

import msgspec

from terracrew.server.dashboard import nav
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Place, Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import level_reads, service
from terracrew.server.tree.groups.model import Group
from terracrew.server.tree.modules import level_reads as module_reads
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
    """How many modules a role at it applies to, counted up to one more than `nav.MAX_COUNTED`."""
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


async def read(tx: Tx, who: Principal, kind: PlaceKind, reference: str, verb: Verb) -> AccessPlace:
    """Find a group or module of the reader's organization. The reader must have the right to do `verb` with it.

    Roles are listed and granted by the path of the place, so a place of another organization is not found here.
    """
    if kind == "module":
        module = await modules.find(tx, who, reference, verb)
        found: tuple[str, str, str, str] = module.id, module.organization_id, module.path, module.name
        lineage, count = await level_reads.lineage(tx, module.group_id), 1
        place = modules.place(module)
    else:
        group = await service.find(tx, who, reference)
        place = service.place(group)
        await authorize.require(tx, who, verb, place, service.unseen(reference))
        found = group.id, group.organization_id, group.path, group.name
        lineage = await level_reads.lineage(tx, group.id)
        count = await module_reads.count_below(tx, group, nav.MAX_COUNTED + 1)
    if place.organization_id != who.organization_id:
        raise service.unseen(reference)
    may_change = (await authorize.visible(tx, who, Verb.ACCESS_WRITE)).covers(place)
    return AccessPlace(kind, *found, lineage=lineage, modules=count, may_change=may_change)
