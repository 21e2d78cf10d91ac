"""A group: a place of the tree that holds groups, modules and runners. The root group of an organization has an empty name."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from terracrew.protocol.cloud import CloudIdentities
from terracrew.protocol.spec import JobLimits
from terracrew.server.tree.groups.clouds import CloudChange
from terracrew.server.tree.groups.dispatchers import DispatcherChange, PlaceChoice
from terracrew.server.tree.groups.limits import LimitsChange

Interrupted = Literal["ask", "retry"]
"""What follows an interrupted change: `ask` a person before anything is changed again, or `retry` because a repetition is harmless."""
MaxDestroy = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""How many resources an APPLY may destroy without an approval."""
MaxDestroyPercent = Annotated[int, msgspec.Meta(ge=0, le=100)]
"""The same as a share of the resources that exist."""
MinApprovals = Annotated[int, msgspec.Meta(ge=1, le=20)]
"""How many different people must approve a plan before it is applied."""
MaxRunningJobs = Annotated[int, msgspec.Meta(ge=1, le=1_000_000)]
"""How many jobs of the modules in and below a group may run at once."""
Description = Annotated[str, msgspec.Meta(max_length=2000)]


class Organization(msgspec.Struct, frozen=True):
    id: str
    name: str
    created_at: datetime


class OrganizationDetails(Organization, frozen=True):
    """An organization and what it has."""

    contents: dict[str, int] = {}
    """How many users, service accounts, groups, modules, runners, jobs and archives it has; it can be deleted without them."""


class Group(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    parent_id: str | None
    name: str
    path: str
    depth: int
    description: str
    created_at: datetime
    interrupted: Interrupted | None = None
    """What follows an interrupted change of the modules in and below the group. This and the next five are approval rules: None adds
    no rule, and of a module, all groups above it and the organization (its root group), the strictest rule applies. Here that is
    `ask`."""
    max_destroy: MaxDestroy | None = None
    """How many resources an APPLY may destroy (or replace) without an approval; destroying everything always needs one."""
    max_destroy_percent: MaxDestroyPercent | None = None
    """The same, as a share of the resources that exist."""
    self_approval: bool | None = None
    """Whether the person who queued a job may approve its plan. If one place says no, they may not; if no place says anything, they
    may."""
    service_account_approval: bool | None = None
    """Whether service accounts may approve plans. If one place says no, or no place says anything, they may not."""
    min_approvals: MinApprovals | None = None
    """How many people must approve each plan of an APPLY or DESTROY in and below the group."""
    max_running_jobs: MaxRunningJobs | None = None
    """How many jobs of the modules in and below the group may run at once; None sets no limit. It is not inherited: the limits of
    all groups above a module and of the organization (its root group) apply together."""
    limits: JobLimits = msgspec.field(default_factory=JobLimits)
    """How long the jobs of the modules in and below the group may run, and what they may use. Of all groups above a module, of the
    organization, of the module and of the job, the smallest limit applies; for `plan_retries`, the nearest."""
    cloud: CloudIdentities = msgspec.field(default_factory=CloudIdentities)
    """As whom the jobs of the modules in and below the group log in to clouds, unless a nearer place has an identity there."""
    dispatcher: PlaceChoice = msgspec.field(default_factory=PlaceChoice)
    """What the jobs of the modules in and below the group ask of the dispatcher of their runner, unless a nearer place says otherwise."""


class GroupChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    description: Description | UnsetType = UNSET
    interrupted: Interrupted | UnsetType | None = UNSET
    max_destroy: MaxDestroy | UnsetType | None = UNSET
    """How many resources an APPLY may destroy without an approval; null sets no limit. The smallest limit of all groups above applies."""
    max_destroy_percent: MaxDestroyPercent | UnsetType | None = UNSET
    self_approval: bool | UnsetType | None = UNSET
    """Whether people may approve their own jobs. True has no effect below a group that says false."""
    service_account_approval: bool | UnsetType | None = UNSET
    """Whether service accounts may approve. True has no effect below a group that says false."""
    min_approvals: MinApprovals | UnsetType | None = UNSET
    """How many people must approve each plan of an APPLY or DESTROY in and below it; null adds no requirement. The largest number
    of all groups above applies."""
    max_running_jobs: MaxRunningJobs | UnsetType | None = UNSET
    """How many jobs of the modules in and below it may run at once; null sets no limit. The limits of all groups above apply, too."""
    limits: LimitsChange | UnsetType = UNSET
    """How long jobs in and below it may run, and what they may use. The smallest limit of all groups above applies."""
    cloud: CloudChange | UnsetType = UNSET
    """As whom jobs in and below it log in to clouds, unless a nearer place has an identity there."""
    dispatcher: DispatcherChange | UnsetType = UNSET
    """What jobs in and below it ask of the dispatcher of their runner, unless a nearer place says otherwise."""


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    description: Description = ""
    interrupted: Interrupted | None = None
    max_destroy: MaxDestroy | None = None
    max_destroy_percent: MaxDestroyPercent | None = None
    self_approval: bool | None = None
    service_account_approval: bool | None = None
    min_approvals: MinApprovals | None = None
    """How many people must approve each plan of an APPLY or DESTROY in and below it. The largest number of all groups above applies."""
    max_running_jobs: MaxRunningJobs | None = None
    """How many jobs of the modules in and below it may run at once. The limits of all groups above apply, too."""
    limits: LimitsChange | None = None
    """How long jobs in and below it may run, and what they may use. The smallest limit of all groups above applies."""
    cloud: CloudChange | None = None
    """As whom jobs in and below it log in to clouds, unless a nearer place has an identity there."""
    dispatcher: DispatcherChange | None = None
    """What jobs in and below it ask of the dispatcher of their runner, unless a nearer place says otherwise."""
