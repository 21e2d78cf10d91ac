"""A group: a place of the tree that holds groups, modules and runners; the organization is the one without a name."""

from datetime import datetime
from typing import Annotated

import msgspec

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


class NewGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    description: Description = ""
