"""What the pages of policies show, and how they read it."""

import msgspec

from terracrew.api import fields
from terracrew.api.groups import Group
from terracrew.api.modules import Module
from terracrew.api.policies import (
    NewPlanPolicy,
    PolicyDetails,
    PolicySettings,
    PolicyTrialResult,
    PolicyVersionView,
    PolicyView,
)
from terracrew.server.dashboard import field_forms
from terracrew.server.dashboard.field_forms import FormField
from terracrew.server.db.seam import Tx
from terracrew.server.policies import reads, service
from terracrew.server.policies.model import Policy
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal

HERE = "/dashboard/policies"
MAX_SHOWN_PLANS = 100
"""How many plans of a trial a page lists. The API and the command line have all."""
EMPTY = NewPlanPolicy(name="", rego="")
EXAMPLE = """package terracrew

deny contains sprintf("%s would be destroyed", [change.address]) if {
    some change in input.plan.resource_changes
    "delete" in change.change.actions
}
"""


class PolicyPanel(msgspec.Struct, frozen=True):
    """The policies that look at the plans of a group or a module, on its page."""

    path: str
    policies: list[PolicyView]
    may_change: bool


class PolicyListPage(msgspec.Struct, frozen=True):
    policies: list[PolicyView]
    place: str | None
    may_change: bool
    """Whether the reader may make one at the place."""


class PolicyPage(msgspec.Struct, frozen=True):
    """A policy with its form, of which there may be none yet."""

    place: str
    policy: PolicyDetails | None
    may_change: bool
    version: PolicyVersionView | None = None
    """The version that is shown."""
    trial: PolicyTrialResult | None = None

    @property
    def settings(self) -> PolicySettings:
        return EMPTY if self.policy is None else fields.created(PolicySettings, self.policy)

    @property
    def rego(self) -> str:
        return EXAMPLE if self.version is None else self.version.rego

    @property
    def shown(self) -> list[FormField]:
        """The fields of the form."""
        return field_forms.layout(PolicySettings)


async def read_list(tx: Tx, who: Principal, place: str | None) -> PolicyListPage:
    found = await service.listing(tx, who, place)
    seen = await authorize.visible(tx, who, Verb.TREE_WRITE)
    at = authorize.organization(who.organization_id)
    if place:
        at = await service.place(tx, who, place.strip("/"), Verb.TREE_READ)
    return PolicyListPage(found.items, place, seen.covers(at))


async def read_new(tx: Tx, who: Principal, place: str) -> PolicyPage:
    """Return the form for a new policy of a place that the reader may change."""
    path = place.strip("/")
    await service.place(tx, who, path, Verb.TREE_WRITE)
    return PolicyPage(path, None, may_change=True)


async def read_one(tx: Tx, who: Principal, policy: str, version: int | None = None) -> PolicyPage:
    found = await service.show(tx, who, policy)
    number = version or found.active_version or found.newest_version
    shown = next((each for each in found.versions if each.number == number), found.versions[0])
    return PolicyPage(found.place, found, await _may_change(tx, who, found), shown)


async def of_group(tx: Tx, who: Principal, group: Group) -> PolicyPanel:
    """Return the policies that look at the plans of a group."""
    found = await reads.of_group(tx, group.id)
    return await _panel(tx, who, authorize.group(group.organization_id, group.path), found)


async def of_module(tx: Tx, who: Principal, module: Module) -> PolicyPanel:
    """Return the policies that look at the plans of a module."""
    found = await reads.of_module(tx, module.id)
    return await _panel(tx, who, authorize.module(module.organization_id, module.path), found)


async def _panel(tx: Tx, who: Principal, place: authorize.Place, found: list[Policy]) -> PolicyPanel:
    may_change = await authorize.may(tx, who, Verb.TREE_WRITE, place)
    return PolicyPanel(place.path, [service.view(each) for each in found], may_change)


async def _may_change(tx: Tx, who: Principal, policy: PolicyView) -> bool:
    place = authorize.group(policy.organization_id, policy.place)
    if policy.is_of_module:
        place = authorize.module(policy.organization_id, policy.place)
    return await authorize.may(tx, who, Verb.TREE_WRITE, place)
