"""The audit log: who changed what."""

from datetime import datetime
from typing import Any

import msgspec


class Entry(msgspec.Struct, frozen=True):
    id: str
    created_at: datetime
    actor_kind: str
    actor_id: str
    actor_name: str
    action: str
    target_kind: str
    target_id: str
    details: dict[str, Any]
    address: str | None = None
    """The address that the request came from; None if the server itself made the change."""
    credential_id: str | None = None
    """The session, API token or secret that the change was made with."""
    path: str | None = None
    """The path of the group, module or runner that the change is about; None for what is at no place of the tree."""
    organization_id: str | None = None
    """The organization that the change is about; None for the server itself."""


class AuditQuery(msgspec.Struct, frozen=True):
    """What to list; what is None is not asked for."""

    actor: str | None = None
    """The name or the id of who made a change."""
    action: str | None = None
    """An action (`job.approve`), or all actions of a kind (`job`)."""
    target: str | None = None
    """The id of what was changed."""
    path: str | None = None
    """The path of a group, with everything below it, or of a module."""
    since: datetime | None = None
    until: datetime | None = None
    text: str | None = None
    """A part of the action, the actor, the target, the address or the details."""
