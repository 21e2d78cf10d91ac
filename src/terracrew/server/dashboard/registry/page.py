"""What the pages of published modules show, and how they read it."""

from urllib.parse import urlsplit

import msgspec

from terracrew.api import fields
from terracrew.api.groups import Group
from terracrew.api.registry import (
    NewPublishedModule,
    PublishedModuleDetails,
    PublishedModuleSettings,
    PublishedModuleUse,
    PublishedModuleView,
    PublishedVersionDetails,
)
from terracrew.server.dashboard import field_forms
from terracrew.server.dashboard.field_forms import FormField
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.registry import service, uses
from terracrew.server.tree.modules import places
from terracrew.wording import registry_words

HERE = "/dashboard/registry"
PAGE_ROWS = 50
MAX_PANEL_ROWS = 100
MAX_SHOWN_VERSIONS = 100
"""How many versions a page lists. The API and the command line have all."""
MAX_SHOWN_USES = 50
EMPTY = NewPublishedModule(group="", name="", system="")


@fields.change
class NewPublishedForm(NewPublishedModule, frozen=True, kw_only=True):
    """What somebody has typed into the form of a new published module."""


class RegistryPanel(msgspec.Struct, frozen=True):
    """What a group publishes, on its page."""

    group: Group
    modules: list[PublishedModuleView]
    may_change: bool


class RegistryListPage(msgspec.Struct, frozen=True):
    modules: list[PublishedModuleView]
    search: str
    next: str | None
    after: str | None


class PublishedPage(msgspec.Struct, frozen=True):
    """A published module with one of its versions and its form, of which there may be none yet."""

    group: Group
    groups: list[Group]
    """The groups on the way to its group, the organization first; none if the reader does not see them."""
    module: PublishedModuleDetails | None
    version: PublishedVersionDetails | None
    usage: str
    may_change: bool
    uses: list[PublishedModuleUse] = []
    """The modules that have fetched it, those that did last first."""

    @property
    def settings(self) -> PublishedModuleSettings:
        return EMPTY if self.module is None else fields.created(PublishedModuleSettings, self.module)

    @property
    def shown(self) -> list[FormField]:
        """The fields of the form."""
        if self.module is not None:
            return field_forms.layout(PublishedModuleSettings)
        return field_forms.layout(NewPublishedModule, ["name", "system", *PublishedModuleSettings.__struct_fields__])


async def read_list(tx: Tx, who: Principal, search: str, after: str | None) -> RegistryListPage:
    found = await service.listing(tx, who, search, "", after, PAGE_ROWS)
    return RegistryListPage(found.items, search, found.next, after)


async def read_new(tx: Tx, who: Principal, group: str) -> PublishedPage:
    """Return the form for a new published module of a group that the reader may change."""
    at = await places.find(tx, who, group or "/")
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(at.organization_id, at.path))
    lineage = await inputs.lineage(tx, who, at)
    return PublishedPage(lineage[-1], lineage, None, None, "", may_change=True)


async def read_one(tx: Tx, who: Principal, published: str, version: str, url: str) -> PublishedPage:
    found = await service.show(tx, who, published)
    known = [each.version for each in found.versions]
    wanted = version or found.latest or (known[0] if known else "")
    shown = await service.show_version(tx, who, published, wanted) if wanted else None
    group = authorize.group(found.organization_id, found.group)
    may_change = await authorize.may(tx, who, Verb.TREE_WRITE, group)
    is_seen = await authorize.may(tx, who, Verb.TREE_READ, group)
    lineage = await inputs.lineage(tx, who, await places.find(tx, who, found.group_id)) if is_seen else []
    usage = registry_words.usage(urlsplit(url).netloc.rpartition("@")[2], found.address, wanted)
    at = lineage[-1] if lineage else _unseen(found)
    used = await uses.listing(tx, who, found.id, "", None, MAX_SHOWN_USES)
    return PublishedPage(at, lineage, found, shown, usage, may_change, used.items)


async def read_to_change(tx: Tx, who: Principal, published: str, url: str) -> PublishedPage:
    """Return a published module that the reader may change. Others are refused, whatever they have typed into its forms."""
    found = await service.show(tx, who, published)
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(found.organization_id, found.group))
    return await read_one(tx, who, published, "", url)


async def read_withdrawal(
    tx: Tx, who: Principal, published: str, version: str
) -> tuple[PublishedModuleDetails, PublishedVersionDetails, list[PublishedModuleUse]]:
    """Return a version that the reader may withdraw, and the modules that have fetched it."""
    found = await service.show(tx, who, published)
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(found.organization_id, found.group))
    used = await uses.listing(tx, who, found.id, version, None, MAX_SHOWN_USES)
    return found, await service.show_version(tx, who, found.id, version), used.items


async def panel(tx: Tx, who: Principal, group: Group) -> RegistryPanel:
    """Return what a group publishes itself, for those who see it."""
    found = await service.listing(tx, who, "", group.path, None, MAX_PANEL_ROWS) if group.path else None
    own = [each for each in found.items if each.group_id == group.id] if found else []
    place = authorize.group(group.organization_id, group.path)
    return RegistryPanel(group, own, bool(group.path) and await authorize.may(tx, who, Verb.TREE_WRITE, place))


def _unseen(module: PublishedModuleDetails) -> Group:
    """Return the publishing group for somebody who may use what it publishes, and sees nothing else of it."""
    return Group(
        id=module.group_id,
        organization_id=module.organization_id,
        parent_id=None,
        name=module.group.rpartition("/")[2],
        path=module.group,
        depth=0,
        created_at=module.created_at,
    )
