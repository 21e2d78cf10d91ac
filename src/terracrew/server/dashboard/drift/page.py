"""What the pages of drift show, and how they read it."""

from datetime import date, timedelta

import msgspec

from terracrew.api.drift import DriftFilter, ModuleDrift, ModuleDriftView
from terracrew.api.groups import Group
from terracrew.api.modules import Module
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.drift import service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules import places
from terracrew.server.tree.modules import service as modules
from terracrew.wording import drift_words

HERE = "/dashboard/drift"
PAGE_ROWS = 50
MUTE_DAYS = 30
"""How long a mute lasts if nobody chooses another day."""


class DriftPage(msgspec.Struct, frozen=True):
    modules: list[ModuleDrift]
    only: DriftFilter
    place: str
    next: str | None
    after: str | None


class ModuleDriftPage(msgspec.Struct, frozen=True):
    module: Module
    groups: list[Group]
    """The groups that it is in, the organization first."""
    drift: ModuleDriftView
    may_run: bool

    @property
    def is_outside(self) -> bool:
        return drift_words.is_outside(self.drift.results)


class MuteDefaults(msgspec.Struct, frozen=True):
    """What the form of a mute shows at first."""

    address: str
    until: str
    """A day, as browsers write it."""
    reason: str = ""


async def read_list(tx: Tx, who: Principal, only: DriftFilter, place: str, after: str | None) -> DriftPage:
    found = await service.listing(tx, who, only, place, after, PAGE_ROWS)
    return DriftPage(found.items, only, place, found.next, after)


async def read_one(tx: Tx, who: Principal, reference: str) -> ModuleDriftPage:
    module = await modules.find(tx, who, reference, Verb.JOB_READ)
    return ModuleDriftPage(
        module=module,
        groups=await inputs.lineage(tx, who, places.of_module(module)),
        drift=await service.show(tx, who, module.id),
        may_run=await authorize.may(tx, who, Verb.JOB_RUN, modules.place(module)),
    )


async def read_mute(tx: Tx, who: Principal, reference: str) -> ModuleDriftPage:
    """Return what the form of a mute needs, if the reader may mute addresses of the module."""
    module = await modules.find(tx, who, reference, Verb.JOB_RUN)
    return await read_one(tx, who, module.id)


def mute_defaults(address: str, today: date) -> MuteDefaults:
    return MuteDefaults(address, (today + timedelta(days=MUTE_DAYS)).isoformat())
