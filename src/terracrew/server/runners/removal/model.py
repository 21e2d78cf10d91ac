"""What a runner still has to finish before it is drained or removed, and what its removal leaves behind."""

from datetime import datetime

import msgspec


class RemainingJob(msgspec.Struct, frozen=True):
    """A job that a runner has now."""

    id: str
    number: int
    module_path: str
    status: str
    instance_name: str | None
    claimed_at: datetime | None


class Remaining(msgspec.Struct, frozen=True, kw_only=True):
    """What a runner still has to finish."""

    id: str
    path: str
    is_draining: bool
    removing_since: datetime | None
    is_drained: bool
    """Whether it drains and has nothing left to finish."""
    job_count: int
    """How many jobs it has now, including those that you may not see."""
    jobs: list[RemainingJob]
    """Those of its first 100 jobs that you may see, by number."""
    delivering: int
    """How many lost attempts are in contact again and still deliver what they have recorded."""


class RunnerRemoval(msgspec.Struct, frozen=True):
    """What has become of the request to remove a runner."""

    path: str
    is_removed: bool
    """Whether its record is gone. If not, it drains now, and the record disappears when nothing remains."""
    remaining: Remaining | None
    """What it still has to finish; null if it is removed."""


class Dependents(msgspec.Struct, frozen=True, kw_only=True):
    """What would be left without a runner if this one took no more jobs."""

    module_count: int
    """How many modules no other enabled runner serves; at most 1001."""
    modules: list[str]
    """The paths of the first few of them that you may see."""
    pinned_count: int
    """How many modules name this runner as the only one that they may use."""
    pinned: list[str]
    """The paths of the first few of them that you may see."""
    waiting_plans: int
    """How many jobs wait with a plan that this runner made. After its removal, each makes a new plan on another runner."""
