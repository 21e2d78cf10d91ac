"""What the pages of discovery rules show, and how they read it."""

import msgspec

from terracrew.api import fields
from terracrew.api.discovery import (
    DiscoveryPreview,
    DiscoveryRuleDetails,
    DiscoveryRuleView,
    DiscoverySettings,
    NewDiscoveryRule,
)
from terracrew.api.groups import Group
from terracrew.server.dashboard import field_forms
from terracrew.server.dashboard.field_forms import FieldContext, FormField
from terracrew.server.dashboard.tree import inputs
from terracrew.server.db.seam import Tx
from terracrew.server.discovery import service
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.modules import places

HERE = "/dashboard/discovery"
PAGE_ROWS = 50
MAX_SHOWN_FOLDERS = 500
"""How many folders a page lists. The API and the command line have all."""
EMPTY = NewDiscoveryRule(name="", url="")
_ENGINES = (("tofu", "OpenTofu"), ("terraform", "Terraform"), ("pulumi", "Pulumi"))


@fields.change
class NewRuleForm(NewDiscoveryRule, frozen=True, kw_only=True):
    """What somebody has typed into the form of a new rule."""


class DiscoveryPanel(msgspec.Struct, frozen=True):
    """The rules of a group, on its page."""

    group: Group
    rules: list[DiscoveryRuleView]
    may_change: bool


class DiscoveryListPage(msgspec.Struct, frozen=True):
    rules: list[DiscoveryRuleView]
    next: str | None
    after: str | None


class RulePage(msgspec.Struct, frozen=True):
    """A rule with its form, of which there may be none yet."""

    group: Group
    groups: list[Group]
    """The groups on the way to its group, the organization first."""
    rule: DiscoveryRuleDetails | None
    may_change: bool
    preview: DiscoveryPreview | None = None

    @property
    def settings(self) -> DiscoverySettings:
        return EMPTY if self.rule is None else fields.created(DiscoverySettings, self.rule)

    @property
    def shown(self) -> list[FormField]:
        """The fields of the form."""
        if self.rule is not None:
            return field_forms.layout(DiscoverySettings)
        names = ["url", "branch", "engine", *DiscoverySettings.__struct_fields__]
        return field_forms.layout(NewDiscoveryRule, names, {"engine": FieldContext(options=_ENGINES)})


async def read_list(tx: Tx, who: Principal, after: str | None) -> DiscoveryListPage:
    found = await service.listing(tx, who, "", after, PAGE_ROWS)
    return DiscoveryListPage(found.items, found.next, after)


async def read_new(tx: Tx, who: Principal, group: str) -> RulePage:
    """Return the form for a new rule of a group that the reader may change."""
    at = await places.find(tx, who, group or "/")
    await authorize.require(tx, who, Verb.TREE_WRITE, authorize.group(at.organization_id, at.path))
    lineage = await inputs.lineage(tx, who, at)
    return RulePage(lineage[-1], lineage, None, may_change=True)


async def read_one(tx: Tx, who: Principal, rule: str) -> RulePage:
    found = await service.show(tx, who, rule)
    at = await places.find(tx, who, found.group_id)
    may_change = await authorize.may(tx, who, Verb.TREE_WRITE, authorize.group(at.organization_id, at.path))
    lineage = await inputs.lineage(tx, who, at)
    return RulePage(lineage[-1], lineage, found, may_change)


async def panel(tx: Tx, who: Principal, group: Group) -> DiscoveryPanel:
    """Return the rules of a group that the reader sees."""
    found = await service.listing(tx, who, group.id, None, PAGE_ROWS)
    place = authorize.group(group.organization_id, group.path)
    return DiscoveryPanel(group, found.items, await authorize.may(tx, who, Verb.TREE_WRITE, place))
