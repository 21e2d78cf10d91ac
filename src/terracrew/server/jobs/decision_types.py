"""What the functions of `decide` are given about an attempt, a module or a connection, and what they return."""

from datetime import datetime

import msgspec

from terracrew.protocol.messages import AttemptRef
from terracrew.server.jobs.destruction import DestroyLimits
from terracrew.server.jobs.model import Attempt, Job, Plan


class Decision(msgspec.Struct, frozen=True):
    """A job, its attempt and its plan as they shall be saved, together."""

    job: Job
    attempt: Attempt
    plan: Plan | None = None
    """As it shall be; None leaves it as it is."""
    ends_doubt: bool = False
    """Whether the module is no longer in doubt: a person has looked, and the plan that was approved has begun."""


class Doubt(msgspec.Struct, frozen=True):
    """An attempt of any job of the module after which something may be unaccounted for."""

    ref: AttemptRef
    fenced_at: datetime
    is_heard: bool
    """Whether the server has contact with it, and it has not been reported as terminated."""


class Report(msgspec.Struct, frozen=True):
    """What the runner that saw an attempt's processes says once all of them have exited."""

    reason: str
    last: int | None = None
    """The number of the outbox's last event."""
    is_delivered: bool = False


class ModuleStanding(msgspec.Struct, frozen=True):
    """What `begin` and a late state need to know of a module."""

    state_version: int
    has_quarantine: bool
    doubts: tuple[Doubt, ...] = ()
    limits: DestroyLimits = DestroyLimits()
    """How much an APPLY may destroy without an approval."""


class ClaimContext(msgspec.Struct, frozen=True):
    """What a claim needs to know of the connection that makes it, and of its record."""

    runner_id: str
    instance_id: str
    is_connected: bool
    """With the epoch that the claim came with."""
    takes_jobs: bool
    """Whether it is enabled and not draining, by its record and by its last heartbeat."""
    free: int
    is_assigned: bool
    is_chosen: bool
    """It is the runner and the instance that the module names, where it names any."""


class LastContact(msgspec.Struct, frozen=True):
    """When the attempt's runner (while it names the attempt) or its executor was last heard, and whether both were seen to go."""

    last: datetime
    is_closed: bool
    is_grace: bool = False
    """Nobody could be heard for a while: `last` is when that was over, and says nothing of this attempt."""
