"""A change that a log reports, and what is known about the resource when the log is compared with the state."""

from datetime import datetime

import msgspec

from terracrew.api.lost_resources import ChangeAction, PlannedAction


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
