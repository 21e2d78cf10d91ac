"""A roll-out and its runners: the rows, the tables of what may become of them, and how people see and start one."""

from datetime import datetime
from enum import StrEnum

import msgspec

from terracrew.errors import Conflict

MIN_WAVE = 0
"""The wave of the runner that is updated first, alone."""
MAX_WORDS_CHARACTERS = 2_000


class RolloutStatus(StrEnum):
    ROLLING = "rolling"
    PAUSED = "paused"
    STOPPED = "stopped"
    """A runner could not be updated, a person stopped it, or its release was withdrawn or replaced. It can be resumed."""
    DONE = "done"


class RolloutRunnerStatus(StrEnum):
    WAITING = "waiting"
    UPDATING = "updating"
    UPDATED = "updated"
    FAILED = "failed"
    BY_HAND = "by_hand"
    """The server cannot update it; its words say why, and its command what to run."""
    SKIPPED = "skipped"
    """It was removed, disabled, renamed or already updated when its turn came."""


_R, _S = RolloutStatus, RolloutRunnerStatus
OPEN_ROLLOUTS = frozenset({_R.ROLLING, _R.PAUSED})
"""The statuses of which each organization has at most one roll-out."""
ROLLOUT_TRANSITIONS: dict[RolloutStatus, frozenset[RolloutStatus]] = {
    _R.ROLLING: frozenset({_R.PAUSED, _R.STOPPED, _R.DONE}),
    _R.PAUSED: frozenset({_R.ROLLING, _R.STOPPED}),
    _R.STOPPED: frozenset({_R.ROLLING}),
    _R.DONE: frozenset(),
}
SETTLED = frozenset({_S.UPDATED, _S.BY_HAND, _S.SKIPPED})
"""The statuses of runners that no later wave waits for."""
ROLLOUT_RUNNER_TRANSITIONS: dict[RolloutRunnerStatus, frozenset[RolloutRunnerStatus]] = {
    _S.WAITING: frozenset({_S.UPDATING, _S.FAILED, _S.BY_HAND, _S.SKIPPED}),
    _S.UPDATING: frozenset({_S.UPDATED, _S.FAILED}),
    _S.UPDATED: frozenset(),
    _S.FAILED: frozenset({_S.WAITING}),
    _S.BY_HAND: frozenset(),
    _S.SKIPPED: frozenset(),
}


class Rollout(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    organization_id: str
    version: str
    """The version of the release that its runners get."""
    status: RolloutStatus
    stop_reason: str = ""
    """Why it was stopped; empty otherwise. It names no runner, because not everybody who sees the roll-out sees all of its runners."""
    stop_runner_id: str | None = None
    """The runner that could not be updated, if that is why it was stopped."""
    is_automatic: bool
    """Whether the publication of the release started it."""
    started_by: str
    started_by_name: str
    started_at: datetime
    ended_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        return self.status in OPEN_ROLLOUTS

    def to(
        self, status: RolloutStatus, now: datetime, reason: str = "", stop_runner_id: str | None = None
    ) -> "Rollout":
        """Return the roll-out in another status. Raises Conflict if it cannot get there."""
        if status not in ROLLOUT_TRANSITIONS[self.status]:
            raise Conflict(f"the roll-out of {self.version} is {self.status} and cannot become {status}")
        ended_at = None if status in OPEN_ROLLOUTS else now
        return msgspec.structs.replace(
            self,
            status=status,
            stop_reason=reason[:MAX_WORDS_CHARACTERS],
            stop_runner_id=stop_runner_id,
            ended_at=ended_at,
        )


class RolloutRunner(msgspec.Struct, frozen=True, kw_only=True):
    """A runner of a roll-out."""

    rollout_id: str
    runner_id: str
    group_id: str
    path: str
    """The path of the runner when the roll-out began."""
    wave: int | None
    """The runners of a wave are updated at the same time; null: the runner is updated by hand."""
    from_version: str
    """The version that it had when the roll-out began."""
    status: RolloutRunnerStatus = RolloutRunnerStatus.WAITING
    job_id: str | None = None
    """The job of the fleet that updates it."""
    job_number: int | None = None
    words: str = ""
    """What became of it, why it failed or was skipped, or why it is updated by hand."""
    command: str = ""
    """What to run for a runner that is updated by hand; empty if there is no command."""
    changed_at: datetime

    @property
    def group(self) -> str:
        """The path of the group that the runner was in."""
        return self.path.rpartition("/")[0]

    def to(self, status: RolloutRunnerStatus, now: datetime, **changes: object) -> "RolloutRunner":
        """Return the runner in another status. Raises Conflict if it cannot get there."""
        if status not in ROLLOUT_RUNNER_TRANSITIONS[self.status]:
            raise Conflict(f"`{self.path}` is {self.status} and cannot become {status}")
        if isinstance(words := changes.get("words"), str):
            changes["words"] = words[:MAX_WORDS_CHARACTERS]
        return msgspec.structs.replace(self, status=status, changed_at=now, **changes)


class RolloutRunnerView(RolloutRunner, frozen=True, kw_only=True):
    """A runner of a roll-out as people see it."""

    step: str = ""
    """What the job that updates it does at this moment."""


class RolloutCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How many runners of a roll-out have each status."""

    waiting: int = 0
    updating: int = 0
    updated: int = 0
    failed: int = 0
    by_hand: int = 0
    skipped: int = 0


class RolloutSummary(Rollout, frozen=True, kw_only=True):
    """A roll-out in a list. Only runners that the caller may see count."""

    counts: RolloutCounts
    wave: int | None
    """The wave that is being updated, or is next; null once no runner waits or is updated, and when the roll-out is stopped."""
    waves: int
    """How many waves there are, with the first."""
    is_changeable: bool = False
    """Whether the caller may pause, resume and stop it: they may change all of its runners."""


class RolloutView(RolloutSummary, frozen=True, kw_only=True):
    """A roll-out as far as the caller sees its runners."""

    runners: list[RolloutRunnerView]
    """By wave and path; those that are updated by hand are last."""


class BreakingChange(msgspec.Struct, frozen=True):
    """A breaking release between the version of a runner and the one that it gets."""

    version: str
    words: str
    """What to do before the update."""


class PlannedRunner(msgspec.Struct, frozen=True, kw_only=True):
    """A runner that a roll-out would have."""

    runner_id: str
    group_id: str
    path: str
    from_version: str
    wave: int | None
    """Null: the server cannot update it."""
    reason: str = ""
    """Why it is updated by hand."""
    command: str = ""
    """What to run for that; empty if there is no command."""


class RolloutPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What *Update all* would do for the caller: nothing has been changed."""

    version: str
    """The latest release; empty if there is none."""
    runners: list[PlannedRunner]
    """The outdated runners that the caller may change, in the order of their waves; those that are updated by hand are last."""
    breaking: list[BreakingChange] = []
    """The breaking releases on the way of a runner that would be updated: they have to be accepted."""
    automatic_words: str = ""
    """Why cloud-hosted runners are not updated by themselves; empty if they are."""
    open_rollout_id: str | None = None
    """The roll-out of this organization that has not ended, as far as the caller may see it."""


class NewRollout(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Start a roll-out of the latest release, with the outdated runners that the caller may change."""

    version: str | None = None
    """The version that the caller expects to be the latest. Refused if it is another one by now."""
    group: str = ""
    """Path or id of a group: only the runners in it and below it; empty: the whole organization."""
    accept_breaking: bool = False
    """Whether breaking releases between the versions of the runners and this one are accepted."""


class RunnerUpdate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Update one runner."""

    version: str | None = None
    """A release; the latest one if it is left out."""
    accept_breaking: bool = False
    """Whether breaking releases between the runner's version and this one are accepted."""
