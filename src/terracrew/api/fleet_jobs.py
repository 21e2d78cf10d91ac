"""A job of the fleet: its row, its steps and log, and the one table of what may become of it."""

from datetime import datetime
from enum import StrEnum
from typing import Literal

import msgspec

from terracrew.errors import Conflict
from terracrew.wording import escapes

MAX_NAME_CHARACTERS = 100
MAX_TEXT_CHARACTERS = 4_000
"""The longest line of a log, and the longest text of a step. Longer ones are cut."""
MAX_STEPS_PER_ATTEMPT = 200
MAX_LINES_PER_ATTEMPT = 10_000


class FleetJobType(StrEnum):
    DEPLOY_WORKER = "DEPLOY_WORKER"
    UPDATE_WORKER = "UPDATE_WORKER"
    DESTROY_WORKER = "DESTROY_WORKER"
    CONNECTION_TEST = "CONNECTION_TEST"


class FleetJobStatus(StrEnum):
    """The same words as those of a module's job."""

    QUEUED = "QUEUED"
    CLAIMED = "CLAIMED"
    PROCESSING = "PROCESSING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


_S = FleetJobStatus
FLEET_TERMINAL = frozenset({_S.SUCCEEDED, _S.FAILED, _S.CANCELED})
FLEET_ACTIVE = frozenset({_S.CLAIMED, _S.PROCESSING})
"""The statuses in which a server has the job. Each target has at most one job in them."""
FLEET_TRANSITIONS: dict[FleetJobStatus, frozenset[FleetJobStatus]] = {
    _S.QUEUED: frozenset({_S.CLAIMED, _S.FAILED, _S.CANCELED}),
    _S.CLAIMED: frozenset({_S.PROCESSING, _S.QUEUED, _S.FAILED, _S.CANCELED}),
    _S.PROCESSING: frozenset({_S.QUEUED, _S.SUCCEEDED, _S.FAILED, _S.CANCELED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELED: frozenset(),
}

FleetOutcome = Literal["succeeded", "failed", "canceled"]
"""What became of the work of an attempt: all of it was done, or something was refused, or it was unwound because of a cancel."""
FleetStepStatus = Literal["pending", "running", "done", "failed"]


def plain_text(text: str, max_characters: int = MAX_TEXT_CHARACTERS) -> str:
    """Return a text from outside in a form that every database can store and every page and terminal can show."""
    return escapes.plain(text[:max_characters].replace("\0", "\ufffd"))


class NewFleetJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that is to be created. The caller has checked that its principal may."""

    type: FleetJobType
    organization_id: str
    group_id: str
    """The group of the runner or identity: who may see its runners may see the job."""
    target_id: str
    """The runner, or the identity for a CONNECTION_TEST. Each target has one running job at a time."""
    target_name: str
    """The path of the runner, or of the group of the identity and its name, as the job's page and the audit log show it."""
    runner_id: str | None = None
    identity_id: str = ""
    """The cloud identity that it works with; empty if the server does all of the job itself."""
    spec: dict[str, str] = {}
    """What else the handler of its type needs. It holds no secret."""


class FleetJob(NewFleetJob, frozen=True, kw_only=True):
    id: str
    number: int
    """From the same counter as the jobs of the organization's modules."""
    status: FleetJobStatus
    attempt: int
    server_id: str | None = None
    """The server that has the job."""
    lease_until: datetime | None = None
    """Until when that server has it, unless it renews the lease; by the database's clock."""
    due_at: datetime
    """When it may be claimed."""
    losses: list[str] = []
    """Why each earlier attempt was lost."""
    error: str = ""
    canceled_at: datetime | None = None
    """Since when a person wants it canceled."""
    canceled_by: str = ""
    """The name of that person."""
    is_unwinding: bool = False
    """Whether its attempt was claimed after the cancel, and only removes what an earlier attempt has left."""
    created_by: str
    created_by_name: str
    created_at: datetime
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def is_terminal(self) -> bool:
        return self.status in FLEET_TERMINAL

    @property
    def is_active(self) -> bool:
        return self.status in FLEET_ACTIVE

    def to(self, status: FleetJobStatus, now: datetime, **changes: object) -> "FleetJob":
        """Move along the table, keeping what each status implies about its times and its server."""
        if status not in FLEET_TRANSITIONS[self.status]:
            raise Conflict(f"job {self.number} is {self.status} and cannot become {status}", status=self.status)
        if status in FLEET_TERMINAL:
            changes |= {"finished_at": now}
        if status not in FLEET_ACTIVE:
            changes |= {"server_id": None, "lease_until": None}
        return msgspec.structs.replace(self, status=status, **changes)


class FleetStep(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the checklist of an attempt."""

    job_id: str
    attempt: int
    name: str
    position: int
    words: str
    """What it does, such as `Task role`; once it has ended, what it did."""
    status: FleetStepStatus = "pending"
    reference: str = ""
    """The name that the cloud knows the made thing by, such as its ARN."""
    detail: str = ""
    """The number that proves it, or what went wrong."""
    remedy: str = ""
    """How to mend what went wrong."""
    started_at: datetime | None = None
    finished_at: datetime | None = None


class FleetLine(msgspec.Struct, frozen=True):
    """A line of the log of a job."""

    attempt: int
    number: int
    """Lines of an attempt are counted from 1."""
    at: datetime
    text: str


class FleetJobView(FleetJob, frozen=True, kw_only=True):
    """A job as people see it, with the steps of its current attempt."""

    steps: list[FleetStep]
