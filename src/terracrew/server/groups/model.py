"""A group: a place of the tree that holds groups, modules and runners; the organization is the one without a name."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

Interrupted = Literal["ask", "retry"]
"""After a change that was cut short: ask a person before anything is changed again, or try again (twice does no harm)."""
MaxDestroy = Annotated[int, msgspec.Meta(ge=0, le=1_000_000)]
"""How many resources an APPLY may destroy without an approval."""
MaxDestroyPercent = Annotated[int, msgspec.Meta(ge=0, le=100)]
"""The same as a share of the resources that exist."""
Description = Annotated[str, msgspec.Meta(max_length=2000)]


class Organization(msgspec.Struct, frozen=True):
    id: str
    name: str
    created_at: datetime


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
    """For the modules in and below it that do not choose by themselves; none means as the group above it. So with the rest."""
    max_destroy: MaxDestroy | None = None
    """How many resources an APPLY may destroy (or replace) without an approval; destroying everything always needs one."""
    max_destroy_percent: MaxDestroyPercent | None = None
    """The same, as a share of the resources that exist."""
    self_approval: bool | None = None
    """Whether the person who queued a job may approve its plan; where no group says so, they may."""
    service_account_approval: bool | None = None
    """Whether service accounts may approve plans; where no group says so, they may not."""


class GroupChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    description: Description | UnsetType = UNSET
    interrupted: Interrupted | UnsetType | None = UNSET
    max_destroy: MaxDestroy | UnsetType | None = UNSET
    max_destroy_percent: MaxDestroyPercent | UnsetType | None = UNSET
    self_approval: bool | UnsetType | None = UNSET
    service_account_approval: bool | UnsetType | None = UNSET


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    description: Description = ""
    interrupted: Interrupted | None = None
    max_destroy: MaxDestroy | None = None
    max_destroy_percent: MaxDestroyPercent | None = None
    self_approval: bool | None = None
    service_account_approval: bool | None = None
