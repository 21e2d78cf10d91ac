"""Which users of a forge are users here, on the page of its connection."""

import msgspec

from terracrew.api.pull_requests import ForgeUserView
from terracrew.errors import Forbidden
from terracrew.server.db.seam import Tx
from terracrew.server.identity.access import users
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.pull_requests import service

MAX_NAMES = 200
"""How many names of users the form offers."""


class ForgePeople(msgspec.Struct, frozen=True):
    """The users of a forge who are users here, and whether the reader may link and unlink them."""

    linked: list[ForgeUserView]
    may_link: bool
    names: list[str]
    """The users here that the form offers."""


async def read(tx: Tx, who: Principal, forge: str) -> ForgePeople:
    linked = await service.forge_users(tx, who, forge)
    may_link = await authorize.may(tx, who, Verb.ACCESS_WRITE, authorize.organization(who.organization_id))
    return ForgePeople(linked.items, may_link, await _names(tx, who) if may_link else [])


async def _names(tx: Tx, who: Principal) -> list[str]:
    try:
        return [each.name for each in (await users.listing(tx, who, None, MAX_NAMES)).items]
    except Forbidden:
        return []
