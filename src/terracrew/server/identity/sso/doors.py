"""Which providers the login page offers, and where people log in with a password although their organization uses single sign-on."""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.identity.sso import store
from terracrew.server.tree.groups import organization_store


class Door(msgspec.Struct, frozen=True):
    """A button of the login page."""

    provider_id: str
    name: str


class Doors(msgspec.Struct, frozen=True):
    doors: tuple[Door, ...] = ()
    organization: str = ""
    """The organization whose providers these are, if somebody has named it."""
    is_asked: bool = False
    """Whether the page asks for the name of an organization: there are several, and their names are not for everybody."""


async def read(tx: Tx, organization: str) -> Doors:
    """Return the buttons for an organization. One that does not exist looks like one without providers."""
    named = organization.strip().lower()[:100]
    known = await organization_store.every(tx, "", 2)
    if len(known) == 1:
        return Doors(await _of(tx, known[0].id))
    found = await organization_store.find(tx, named) if named and named.isprintable() else None
    return Doors(() if found is None else await _of(tx, found.id), named, is_asked=True)


async def _of(tx: Tx, organization_id: str) -> tuple[Door, ...]:
    return tuple(Door(each.id, each.name) for each in await store.providers(tx, organization_id) if each.is_enabled)
