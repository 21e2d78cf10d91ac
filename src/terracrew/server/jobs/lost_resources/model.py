"""A change that a log reports, and what is known about the resource when the log is compared with the state."""

from datetime import datetime
from typing import Literal

import msgspec

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


class FoundChange(msgspec.Struct, frozen=True):
    """A change with its place in the log of the attempt, as it is stored."""

    address: str
    action: ChangeAction
    resource_id: str
    replaced_id: str
    """The id of the one at the same address that the attempt destroyed, if this one was created in its place."""
    event: int
    """The number of the event with the line that reports it."""
    changed_at: datetime


class StoredChange(FoundChange, frozen=True, kw_only=True):
    job_id: str
    attempt: int
    number: int
    """Its place in the list of the attempt, from 1."""
    state_event: int
    """The last event of the attempt with a state that has arrived; 0 if there is none."""

    @property
    def id(self) -> str:
        """Its key in a list of one job."""
        return f"{self.attempt}.{self.number}"


class UnreportedChange(msgspec.Struct, frozen=True):
    """A change that the plan of an attempt contains, and its log, which is not complete, does not mention."""

    attempt: int
    number: int
    """Its place in the list of the attempt, after everything that the log reports."""
    address: str
    action: PlannedAction

    @property
    def id(self) -> str:
        """Its key in a list of one job."""
        return f"{self.attempt}.{self.number}"


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


class LostResources(msgspec.Struct, frozen=True):
    """A page of the resources that a job may have lost."""

    items: list[LostResource]
    next: str | None = None
    state_version: int | None = None
    """The version of the module's state that the log was compared with; None if no state could be read."""
    is_complete: bool = True
    """Whether everything that the attempts changed is known. Otherwise `gaps` says from when on nothing is known."""
    gaps: list[LogGap] = []
