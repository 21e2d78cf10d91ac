"""Resources that an attempt changed before it was cut short, and that no state records."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from terracrew.api.pages import Page

MAX_IMPORTS = 2_000
"""The most resources that one job imports. A grant has a bounded size."""


class ImportLost(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which lost resources a job imports."""

    job: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The job that lost them, by its id or number. Without one: all jobs that put the module in doubt."""
    leave_out: Annotated[list[str], msgspec.Meta(max_length=MAX_IMPORTS)] = []
    """Addresses that are not imported, because the provider cannot import them or they are not wanted."""


ChangeAction = Literal["created", "changed", "destroyed", "creating", "changing", "destroying"]
"""The last three were begun, and nothing says how they ended."""
PlannedAction = Literal["planned_create", "planned_replace", "planned_destroy"]
"""What the plan of an attempt was to do, if its log ends before it could have said that it did."""
Remedy = Literal["import", "look", "refresh", "decide"]
"""What to do about a resource: import it; look for it, because its id is not known; nothing, because the next plan reads it
anew; or decide, because the state has another one at its address."""


class LoggedChange(msgspec.Struct, frozen=True):
    """A resource that the log of an attempt says it changed, or had begun to change."""

    address: str
    action: ChangeAction
    id: str = ""


class LogGap(msgspec.Struct, frozen=True):
    """The end of the log of an attempt that was cut short, if not everything that it did is known to have arrived."""

    job_id: str
    attempt: int
    log_ends_at: datetime
    """When the last of its events arrived."""
    heard_at: datetime
    """When the server last had contact with it, to a few seconds."""
    explanation: str


class LostResource(msgspec.Struct, frozen=True, kw_only=True):
    """A resource that was changed by an attempt that was cut short, and that the current state does not show like that."""

    attempt: int
    address: str
    action: ChangeAction | PlannedAction
    id: str
    """The id that the provider gave it; '' if the log does not say it."""
    type: str
    provider: str
    """The name of the provider, as far as the type tells."""
    changed_at: datetime | None
    """When the log reports it; None if the log ends before that."""
    remedy: Remedy
    explanation: str
    import_block: str = ""
    """The block that imports it, if its remedy is `import`."""


class LostResources(Page[LostResource], frozen=True):
    """A page of the resources that a job may have lost."""

    state_version: int | None = None
    """The version of the module's state that the log was compared with; None if no state could be read."""
    is_complete: bool = True
    """Whether everything that the attempts changed is known. Otherwise `gaps` says from when on nothing is known."""
    gaps: list[LogGap] = msgspec.field(default_factory=list[LogGap])
