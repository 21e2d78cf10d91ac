"""Service accounts, their secrets, and the roles that are bound to places of the tree."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.server.principals.model import Role


class ServiceAccount(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    group_id: str
    group: str
    """Path of its group; empty for the organization itself."""
    name: str
    created_by: str
    created_at: datetime
    is_disabled: bool = False
    """Whether its secrets are refused. Its roles and secrets are kept."""


class ClientSecret(msgspec.Struct, frozen=True):
    id: str
    service_account_id: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


class RoleBinding(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    principal_kind: Literal["user", "service_account"]
    principal_id: str
    role: Role
    place_kind: Literal["group", "module"]
    path: str
    created_by: str
    """The id of the principal that granted the role."""
    created_at: datetime
    expires_at: datetime | None = None
    """When the role ends by itself; None if it does not."""


class RoleListed(RoleBinding, frozen=True):
    """A role with the names of the principals that it mentions."""

    principal_name: str = ""
    created_by_name: str = ""
    """Who granted the role; empty for the server itself and for principals that were deleted."""
