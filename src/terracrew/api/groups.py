"""Organizations and groups: the places of the tree that hold groups, modules and runners."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api import fields
from terracrew.api.fields import Field
from terracrew.api.place_settings import Interrupted, PlaceSettings

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
MaxRunningJobs = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
RuleName = Literal[
    "max_destroy", "max_destroy_percent", "self_approval", "service_account_approval", "min_approvals", "interrupted"
]


class Organization(msgspec.Struct, frozen=True):
    id: str
    name: str
    created_at: datetime


class OrganizationDetails(Organization, frozen=True):
    """An organization and what it has."""

    contents: dict[str, int] = {}
    """How many users, service accounts, groups, modules, runners, jobs and archives it has; it can be deleted without them."""


class GroupSettings(PlaceSettings, frozen=True, kw_only=True):
    self_approval: Annotated[
        bool | None, Field(label="Approval of one's own jobs", null="inherit", section="approval", merge="smallest")
    ] = None
    """Whether the person who queued a job may approve its plan. If one place from the organization down says no, they may not; if no
    place says anything, they may."""
    service_account_approval: Annotated[
        bool | None, Field(label="Approval by service accounts", null="inherit", section="approval", merge="smallest")
    ] = None
    """Whether service accounts may approve plans. If one place from the organization down says no, or no place says anything, they may
    not."""
    max_running_jobs: Annotated[
        MaxRunningJobs | None, Field(label="Jobs at once", section="placement", metavar="N")
    ] = None
    """How many jobs of the modules in and below the group may run at once; null sets no limit. The limits of all groups above apply,
    too."""


class Group(GroupSettings, frozen=True, kw_only=True):
    id: str
    organization_id: str
    parent_id: str | None
    name: str
    path: str
    depth: int
    created_at: datetime


@fields.new
class NewGroup(GroupSettings, frozen=True, kw_only=True):
    path: str


@fields.change
class GroupChange(GroupSettings, frozen=True, kw_only=True):
    """What to change; what is left out stays."""


class ApprovalRule(msgspec.Struct, frozen=True):
    """An approval rule as it applies at a place."""

    name: RuleName
    value: bool | int | Interrupted | None
    """Null for `max_destroy` and `max_destroy_percent` means that there is no limit; 0 for `min_approvals`, that nobody must approve."""
    path: str | None
    """The path of the group or the module whose rule it is, empty for the organization; null if the default applies, because no
    place from the organization down has this rule."""


class GroupView(Group, frozen=True, kw_only=True):
    approval_rules: list[ApprovalRule]
    """The approval rules that apply in the group, each with the place that it comes from: of all places from the organization down to
    the group, the strictest."""


class NewOrganization(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    owner: Name | None = None
    """The name or id of a user who becomes the owner."""


class OrganizationChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
