"""Modules as people and programs see them: with their newest job, their lock, and what blocks their jobs."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.groups import ApprovalRule
from terracrew.api.job_views import AttemptReport, HeldLock, ModuleHold, Placement
from terracrew.api.jobs import JobStatus
from terracrew.api.locks import Lock
from terracrew.api.modules import Module
from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.protocol.spec import JobType

NewestJobStatus = Literal[
    "QUEUED",
    "CLAIMED",
    "PROCESSING",
    "AWAITING_APPROVAL",
    "SUCCEEDED",
    "FAILED",
    "CANCELED",
    "DECLINED",
    "open",
    "none",
]
"""What a list of modules can be limited to by their newest jobs: a status, any job that has not ended, or no job at all."""


class Quarantined(msgspec.Struct, frozen=True):
    """A state that a person must adopt or discard before the module plans again."""

    id: str
    job_id: str
    number: int
    """The number of the job; 0 if a person wrote it at a terminal."""
    attempt: int
    serial: int
    created_at: datetime
    problem: str = ""
    """Why it cannot be adopted: it cannot be read, or the module's own backend did not accept it."""
    written_by: str = ""
    """The person or service account that wrote it at a terminal."""


class ModuleView(Module, frozen=True, kw_only=True):
    doubts: list[AttemptReport]
    """Attempts after which a change may be unaccounted for: every plan waits for a person."""
    holds: list[ModuleHold]
    """Why the module is held or in doubt since the server's database was set back."""
    quarantined: list[Quarantined]
    """The oldest 100 at most; the list of the module's states has all of them."""
    lock: Lock | None
    lock_doubt: str = ""
    """How the lock of a person ended, if not in order: what was changed under it may be in no state, and the next change waits for an
    approval."""
    held_lock: HeldLock | None
    """The attempt that may have left the lock of the module's own backend behind."""
    applying_dispatcher: DispatcherChoice
    """What its next job asks of the dispatcher of its runner: what the module says itself, and what the groups above it say."""
    dispatcher_from: dict[str, str]
    """Which group decides about a field of `applying_dispatcher` that the module does not have itself: its path, which is empty
    for the organization."""
    approval_rules: list[ApprovalRule]
    """The approval rules that apply to it, each with the place that it comes from: of all places from the organization down to the
    module, the strictest."""
    placement: Placement
    """Which runners may have its jobs, and the limits of its groups."""
    used_by: list[str]
    """The paths of the modules that use its outputs, 100 at most. Those that you may not see are counted, but not named."""


class NewestJob(msgspec.Struct, frozen=True):
    """The job of a module that was created last."""

    id: str
    number: int
    type: JobType
    status: JobStatus
    at: datetime
    """When it ended, else when it started, else when it was created."""


class ModuleListed(Module, frozen=True, kw_only=True):
    """A module in a list."""

    newest_job: NewestJob | None = None
    is_in_doubt: bool = False
    """Whether every plan of it waits for a person."""
