"""A group: a place of the tree that holds groups, modules and runners; the organization is the one without a name."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

Interrupted = Literal["ask", "retry"]
"""After a change that was cut short: ask a person before anything is changed again, or try again (twice does no harm)."""
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
    """For the modules in and below it that do not choose by themselves; none means as the group above it."""


class GroupChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to change; what is left out stays."""

    description: Description | UnsetType = UNSET
    interrupted: Interrupted | UnsetType | None = UNSET


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    description: Description = ""
    interrupted: Interrupted | None = None
