"""Who there is: people, service accounts, sessions, tokens, roles, and the principal that a request acts as."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

PrincipalKind = Literal["user", "service_account", "runner", "executor", "engine", "system", "anonymous"]


class AttemptRef(msgspec.Struct, frozen=True):
    """The one attempt that a job's credential belongs to."""

    job_id: str
    attempt: int
    organization_id: str
    module_id: str
    module_path: str
    runner_id: str


class Principal(msgspec.Struct, frozen=True):
    """Who a request or a connection acts as."""

    kind: PrincipalKind
    id: str
    name: str
    organization_id: str | None
    is_system_admin: bool = False
    attempt: AttemptRef | None = None
    credential_id: str | None = None
    """Which token, session or secret it came by; what is revoked is found by it."""
    expires_at: float | None = None
    """When its access token ends, by the servers' clock; a connection that was opened by it ends then, too."""
    credential: Literal["session", "token", "local_token", "secret"] | None = None
    """How a person or a service account has proved who they are. A local token is one that was used on the server's machine."""
    credential_ends_at: float | None = None
    """When the API token or client secret itself ends; None if it has no end."""
    address: str | None = None
    """Where the request or the connection came from; the audit keeps it. None for the server itself."""


SYSTEM = Principal("system", "system", "Terracrew", None)
"""The server itself, in its own loops."""


class Role(StrEnum):
    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"
    OWNER = "owner"


class User(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    name: str
    is_system_admin: bool
    is_disabled: bool
    created_at: datetime


class Session(msgspec.Struct, frozen=True):
    """A login in a browser. `token` goes into the cookie and nowhere else."""

    id: str
    user_id: str
    token: str
    expires_at: datetime

    def __repr__(self) -> str:
        return f"Session({self.id})"


class OpenSession(msgspec.Struct, frozen=True):
    """A session as people see it in a list."""

    id: str
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    address: str | None
    """Where it was started."""


class ApiToken(msgspec.Struct, frozen=True):
    id: str
    name: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    is_local: bool = False
    """Whether the server has left it in its data directory, for the command line on its own machine."""


class ServiceAccount(msgspec.Struct, frozen=True):
    id: str
    organization_id: str
    group_id: str
    group: str
    """Path of its group; empty for the organization itself."""
    name: str
    created_by: str
    created_at: datetime


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
    created_at: datetime
