"""The settings of a group in sections, with what applies from the groups above."""

from collections.abc import Mapping

import msgspec

from terracrew.api.groups import Group, GroupSettings
from terracrew.server.dashboard import field_forms
from terracrew.server.dashboard.field_forms import FormSection
from terracrew.server.dashboard.groups import page
from terracrew.server.dashboard.groups.page import GroupHead
from terracrew.server.dashboard.tree import settings as tree_settings
from terracrew.server.dashboard.tree.settings import place_name
from terracrew.server.db.seam import Tx
from terracrew.server.principals.model import Principal
from terracrew.server.tree.groups import service
from terracrew.server.tree.groups.inheritance import DEFAULTS, EffectiveRule, effective_rule

TITLES = {
    "general": "General",
    "approval": "Approvals",
    "placement": "Jobs that run at once",
    "limits": "Limits of jobs",
    "dispatcher": "Dispatcher of jobs",
    "cloud": "Cloud logins",
}
"""The sections by the names that the fields of a group have for them, in the order of the page."""


class GroupSettingsPage(msgspec.Struct, frozen=True):
    head: GroupHead
    above: Mapping[str, EffectiveRule]
    """The approval rules that would apply if the group had none itself."""
    rules: Mapping[str, EffectiveRule]
    """The approval rules that apply."""
    contents: dict[str, int]
    """What is in the group, by kind; known to those who may change it."""

    @property
    def group(self) -> Group:
        return self.head.group

    @property
    def settings(self) -> Group:
        return self.group

    @property
    def shown(self) -> dict[str, str]:
        return {}

    @property
    def sections(self) -> dict[str, FormSection]:
        above = self.head.lineage[1:]
        limits = [f"In {place_name(each)}: {each.max_running_jobs:,}" for each in above if each.max_running_jobs]
        notes = tree_settings.describe_above(above) | {"placement": limits}
        return field_forms.make_sections(GroupSettings, TITLES, tree_settings.describe_rules(self.above), notes)


async def read(tx: Tx, who: Principal, reference: str) -> GroupSettingsPage:
    head = await page.read_head(tx, who, reference)
    await service.show(tx, who, head.group.id)
    return GroupSettingsPage(
        head,
        {name: effective_rule(head.lineage[1:], name) for name in DEFAULTS},
        {name: effective_rule(head.lineage, name) for name in DEFAULTS},
        await service.contents(tx, head.group) if head.may_change else {},
    )
