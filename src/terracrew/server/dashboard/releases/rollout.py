"""What the pages say about outdated runners, and about a roll-out: parts, waves, and runners that are updated by hand."""

from collections.abc import Sequence
from itertools import groupby
from typing import Generic, Protocol, TypeVar

import msgspec

from terracrew import __version__
from terracrew.api.rollouts import (
    PlannedRunner,
    RolloutPreview,
    RolloutRunnerStatus,
    RolloutRunnerView,
    RolloutStatus,
    RolloutView,
)
from terracrew.api.runners import Runner
from terracrew.server.dashboard.badges import Badge
from terracrew.server.dashboard.words import counted
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb, Visible
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules, store
from terracrew.server.rollouts import planning
from terracrew.server.rollouts.planning import RolloutRules
from terracrew.server.runners import version_reads
from terracrew.server.runners.reads import RunnerScope
from terracrew.source_rules.version_ranges import parse_version
from terracrew.wording.update_words import ByHand

MAX_COUNTED = 1_000
MAX_NAMED = 3
_S = RolloutRunnerStatus
_ROLLOUTS = {
    RolloutStatus.ROLLING: Badge("busy", "arc", "Rolling out"),
    RolloutStatus.PAUSED: Badge("warn", "half", "Paused"),
    RolloutStatus.STOPPED: Badge("bad", "slash", "Stopped"),
    RolloutStatus.DONE: Badge("ok", "tick", "Done"),
}
_RUNNERS = {
    _S.WAITING: Badge("idle", "clock", "Waiting"),
    _S.UPDATING: Badge("busy", "arc", "Updating"),
    _S.UPDATED: Badge("ok", "tick", "Updated"),
    _S.FAILED: Badge("bad", "cross", "Failed"),
    _S.BY_HAND: Badge("warn", "mark", "By hand"),
    _S.SKIPPED: Badge("idle", "slash", "Skipped"),
}
PARTS = {
    _S.UPDATED: "updated",
    _S.UPDATING: "updating",
    _S.FAILED: "failed",
    _S.WAITING: "waiting",
    _S.SKIPPED: "skipped",
    _S.BY_HAND: "to update by hand",
}
"""The statuses in the order of the bar, with their words."""
_LEFT = Badge("idle", "slash", "Not updated")
"""The badge of a runner whose turn had not come when the roll-out was stopped."""


class _InWave(Protocol):
    @property
    def wave(self) -> int | None: ...


W = TypeVar("W", bound=_InWave)


class Wave(msgspec.Struct, Generic[W], frozen=True):
    number: int
    runners: list[W]

    @property
    def title(self) -> str:
        return "First, alone" if self.number == 0 else f"Wave {self.number + 1:,}"


class RolloutPanel(msgspec.Struct, frozen=True):
    rollout: RolloutView
    is_of_latest: bool
    """Whether its release is the latest one. Otherwise it cannot be resumed."""

    @property
    def badge(self) -> Badge:
        return _ROLLOUTS[self.rollout.status]

    def runner_badge(self, runner: RolloutRunnerView) -> Badge:
        return _LEFT if self._is_stopped and runner.status is _S.WAITING else _RUNNERS[runner.status]

    @property
    def _is_stopped(self) -> bool:
        return self.rollout.status is RolloutStatus.STOPPED

    @property
    def parts(self) -> list[str]:
        """Return the status of each runner, in the order of the bar."""
        order = list(PARTS)
        return [each.status.value for each in sorted(self.rollout.runners, key=lambda each: order.index(each.status))]

    @property
    def parts_words(self) -> str:
        counts = self.rollout.counts
        numbers = {status: getattr(counts, status.value) for status in PARTS}
        words = PARTS | {_S.WAITING: "not updated"} if self._is_stopped else PARTS
        return ", ".join(f"{numbers[status]:,} {word}" for status, word in words.items() if numbers[status])

    @property
    def words(self) -> str:
        """Return how far it has come."""
        rollout = self.rollout
        updated = f"{rollout.counts.updated:,} of {len(rollout.runners):,} updated"
        if rollout.wave is None or rollout.waves < 2:
            return updated
        return f"wave {rollout.wave + 1:,} of {rollout.waves:,}, {updated}"

    @property
    def waves(self) -> list[Wave[RolloutRunnerView]]:
        return _waves(self.rollout.runners)

    def wave_words(self, wave: Wave[RolloutRunnerView]) -> str:
        """Return what stands beside the title of a wave."""
        if len(wave.runners) == 1 and wave.number == 0:
            return ""
        done = sum(each.status is _S.UPDATED for each in wave.runners)
        if self.rollout.wave is not None and wave.number > self.rollout.wave:
            return (
                "starts when the first runner is updated"
                if wave.number == 1
                else f"starts when wave {wave.number:,} is done"
            )
        return f"{done:,} of {len(wave.runners):,}"

    @property
    def by_hand(self) -> list[RolloutRunnerView]:
        return [each for each in self.rollout.runners if each.status is _S.BY_HAND]

    @property
    def stop_runner(self) -> RolloutRunnerView | None:
        """Return the runner because of which it was stopped, if the reader may see it."""
        wanted = self.rollout.stop_runner_id
        return next((each for each in self.rollout.runners if wanted and each.runner_id == wanted), None)


class UpdatePanel(msgspec.Struct, frozen=True):
    """What *Update all* would do."""

    preview: RolloutPreview

    @property
    def waves(self) -> list[Wave[PlannedRunner]]:
        return _waves(self.preview.runners)

    @property
    def by_hand(self) -> list[PlannedRunner]:
        return [each for each in self.preview.runners if each.wave is None]

    @property
    def count(self) -> int:
        """Return how many runners the server would update."""
        return sum(each.wave is not None for each in self.preview.runners)

    @property
    def oldest(self) -> str:
        """Return the lowest version that one of the runners has; empty if none is known."""
        found = [version for each in self.preview.runners if (version := parse_version(each.from_version))]
        return str(min(found, key=lambda each: each.order)) if found else ""

    @property
    def title(self) -> str:
        return f"Update all to {self.preview.version}" if self.preview.runners else "Update all"

    @property
    def button(self) -> str:
        return f"Update {counted(self.count, 'runner')}"


def _waves(runners: Sequence[W]) -> list[Wave[W]]:
    placed = sorted((each for each in runners if each.wave is not None), key=lambda each: each.wave or 0)
    return [Wave(number, list(found)) for number, found in groupby(placed, key=lambda each: each.wave or 0)]


class OutdatedRunners(msgspec.Struct, frozen=True):
    latest: str
    count: int
    """At most one more than MAX_COUNTED."""
    named: list[tuple[str, str]]
    """The paths and versions of the first ones."""
    oldest: str
    """The lowest version that one of them has."""

    @property
    def title(self) -> str:
        if self.count > MAX_COUNTED:
            return f"More than {MAX_COUNTED:,} runners are outdated"
        return f"{counted(self.count, 'runner')} {'is' if self.count == 1 else 'are'} outdated"

    @property
    def names(self) -> str:
        """Return which ones they are, in words."""
        by_version: dict[str, list[str]] = {}
        for path, version in self.named:
            by_version.setdefault(version, []).append(path)
        parts = [f"{' and '.join(each)} {'runs' if len(each) == 1 else 'run'} {v}" for v, each in by_version.items()]
        more = f", and {self.count - len(self.named):,} more" if len(self.named) < self.count <= MAX_COUNTED else ""
        return "; ".join(parts) + more


async def by_hand(tx: Tx, rules_: RolloutRules, runner: Runner) -> ByHand | None:
    """Return how a person updates an outdated runner to the latest release; None if the server can do that."""
    release = await planning.latest(tx, rules_)
    return None if release is None else (await rules_.updaters.by_hand(tx, [runner], release)).get(runner.id)


async def is_updatable(tx: Tx, who: Principal, within: RunnerScope, latest: str) -> bool:
    """Return whether the reader may change an outdated runner that is not shared. Shared ones are updated with their server."""
    changeable = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    own = msgspec.structs.replace(within, is_shared=False)
    return any(rules.is_outdated(each, latest) for each in await version_reads.current(tx, changeable, own))


async def read_outdated(tx: Tx, seen: Visible, within: RunnerScope) -> OutdatedRunners | None:
    """Return the outdated runners of a part of the tree; None if there are none."""
    latest = rules.latest(await store.versions(tx), __version__)
    if latest is None:
        return None
    versions = await version_reads.current(tx, seen, within)
    old = [each for each in versions if rules.is_outdated(each, latest.version)]
    if not old:
        return None
    parsed = {each: version.order for each in old if (version := parse_version(each))}
    old.sort(key=lambda each: parsed[each])
    found = sorted((await version_reads.having(tx, seen, within, old, MAX_COUNTED + 1)).values())
    return OutdatedRunners(latest.version, min(len(found), MAX_COUNTED + 1), found[:MAX_NAMED], old[0])
