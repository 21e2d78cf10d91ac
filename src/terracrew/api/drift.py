"""Drift: what was changed outside of the engine, as the difference between the checks of a module; what is muted; and what is told."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

DriftKind = Literal["new", "changed", "gone"]
"""An address that differs since this check, differs in another way, or does not differ any more."""
MAX_REASON_CHARACTERS = 1_000
MAX_ADDRESS_CHARACTERS = 4_000
DriftFilter = Literal["drifted", "failed", "muted", "all"]


class DriftChange(msgspec.Struct, frozen=True):
    """A difference between two checks of a module."""

    address: str
    kind: DriftKind
    action: str = ""
    """What differs: the resource was updated or deleted outside, or would be created, for example."""


class DriftMute(msgspec.Struct, frozen=True, kw_only=True):
    """An address of a module about which nothing is told until a time."""

    id: str
    organization_id: str
    module_id: str
    address: str
    reason: str
    until: datetime
    created_by: str
    created_by_name: str
    created_at: datetime


class NewMute(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to tell nothing about an address for some time."""

    module: Annotated[str, msgspec.Meta(max_length=2_000)]
    """The path or id of the module."""
    address: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_ADDRESS_CHARACTERS)]
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_REASON_CHARACTERS)]
    """Why its drift is expected; everybody who sees the module sees it."""
    until: datetime
    """When it ends, at most a year from now. If the address still differs then, it is told again."""


class DriftItem(msgspec.Struct, frozen=True):
    """An address that differs, as the last check has found it."""

    module_id: str
    address: str
    action: str
    digest: str
    """The hash of what differs, without sensitive values: another hash means that it differs in another way."""
    since: datetime
    """The first check that has found it."""
    changed_at: datetime
    """The last check that has found another difference of it."""


class DriftItemView(DriftItem, frozen=True, kw_only=True):
    mute: DriftMute | None = None


class DriftResult(msgspec.Struct, frozen=True, kw_only=True):
    """What a check has found."""

    job_id: str
    module_id: str
    checked_at: datetime
    is_refresh_only: bool
    problem: str = ""
    """Why it found nothing out, if its job failed."""
    drifted: int = 0
    """How many addresses differ, with those that are muted."""
    muted: int = 0
    differences: list[DriftChange] = []
    """What differs from the check before, without what is muted."""

    def count(self, kind: DriftKind) -> int:
        """Return how many addresses were told as new, changed or gone."""
        return sum(each.kind == kind for each in self.differences)


class DriftCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A check that is due or runs."""

    due_at: datetime
    is_refresh_only: bool
    asked_by_name: str
    schedule_name: str = ""
    job_id: str | None = None
    """The job that makes the plan; null before it is queued."""


class ModuleDrift(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about the drift of a module."""

    module_id: str
    path: str
    engine: str
    drifted: int = 0
    """How many addresses differ, without those that are muted."""
    muted: int = 0
    drifted_since: datetime | None = None
    """Since when something differs without interruption."""
    checked_at: datetime | None = None
    """When the last check ended that found something out."""
    checked_job_id: str | None = None
    problem: str = ""
    """Why the last check found nothing out."""
    problem_at: datetime | None = None
    check: DriftCheck | None = None
    new: int = 0
    """How many addresses the last check has told as new, as changed, and as gone."""
    changed: int = 0
    gone: int = 0


class ModuleDriftView(ModuleDrift, frozen=True, kw_only=True):
    """The drift of one module with its addresses and its newest checks."""

    items: list[DriftItemView]
    mutes: list[DriftMute]
    results: list[DriftResult]


class AskDriftCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to check a module, or all modules of a group, now."""

    place: Annotated[str, msgspec.Meta(max_length=2_000)]
    """The path or id of a group or module; `/` is the whole organization."""
    is_refresh_only: bool = True
    """Compare what exists with the state only, and make no full plan."""


class AskedDriftCheck(msgspec.Struct, frozen=True):
    modules: int
    """How many modules are checked."""
    left_out: list[str] = []
    """Why others are not, in words."""


class Reconcile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request to apply a module, so that what exists is again what its configuration says. It is checked again after that."""

    module: Annotated[str, msgspec.Meta(max_length=2_000)]
