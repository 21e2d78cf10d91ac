"""Plans a roll-out: which runners are outdated, who of them is updated in which wave, who by hand, and what breaks.

The waves begin with one runner, alone; then come two, four, eight and so on.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import msgspec

from terracrew.api.rollouts import BreakingChange, PlannedRunner
from terracrew.server.db.seam import Tx
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.releases import rules
from terracrew.server.releases import service as releases
from terracrew.server.releases import store as release_store
from terracrew.server.releases.model import Release
from terracrew.server.rollouts import reads
from terracrew.server.rollouts.reads import RunnerState
from terracrew.server.rollouts.updating import Updaters
from terracrew.server.runners import service as runners
from terracrew.server.tree.groups import service as groups
from terracrew.server.tree.groups import tree_path
from terracrew.source_rules.version_ranges import parse_version


class WaveCandidate(msgspec.Struct, frozen=True):
    """A runner that the server can update."""

    runner_id: str
    path: str

    @property
    def group(self) -> str:
        return self.path.rpartition("/")[0]


def divide(candidates: Sequence[WaveCandidate]) -> list[list[str]]:
    """Return the ids of the runners of each wave; the first wave has one runner.

    Half of the runners of a group are in one wave at most, so that a group with several runners is never updated all at once. A wave
    has twice as many places as the one before. It stays smaller if its groups allow no more.
    """
    left = sorted(candidates, key=lambda each: (each.path, each.runner_id))
    sizes = Counter(each.group for each in left)
    # A group with many runners does without the first one most easily, if the update goes wrong.
    left.sort(key=lambda each: -sizes[each.group])
    waves: list[list[str]] = []
    while left:
        wave = _next_wave(left, sizes, places=2 ** len(waves))
        taken = {each.runner_id for each in wave}
        left = [each for each in left if each.runner_id not in taken]
        waves.append([each.runner_id for each in wave])
    return waves


def most_at_once(size: int) -> int:
    """Return how many runners of a group with this many are updated at once at most."""
    return max(1, size // 2)


def _next_wave(left: Sequence[WaveCandidate], sizes: Counter[str], places: int) -> list[WaveCandidate]:
    """Take runners of as many groups as possible: one of each, then a second one of each, and so on."""
    in_wave: Counter[str] = Counter()
    ranked: list[tuple[int, int, WaveCandidate]] = []
    for position, each in enumerate(left):
        if in_wave[each.group] < most_at_once(sizes[each.group]):
            ranked.append((in_wave[each.group], position, each))
            in_wave[each.group] += 1
    ranked.sort(key=lambda entry: entry[:2])
    return [each for _, _, each in ranked[:places]]


class RolloutRules(msgspec.Struct, frozen=True, kw_only=True):
    """What this server knows of itself that decides about roll-outs."""

    updaters: Updaters
    server_version: str
    updates_cloud_runners: bool = True
    """Whether cloud-hosted runners are updated when a release is published."""


class RolloutPlan(msgspec.Struct, frozen=True):
    """What a roll-out of the latest release would do."""

    release: Release
    runners: list[PlannedRunner]
    """By wave and path; those that are updated by hand are last."""
    breaking: list[BreakingChange]
    """What is breaking on the way of the runners that would be updated, the lowest version first."""

    @property
    def updatable(self) -> list[PlannedRunner]:
        return [each for each in self.runners if each.wave is not None]


async def latest(tx: Tx, rules_: RolloutRules) -> Release | None:
    return await releases.latest(tx, rules_.server_version)


async def changeable(tx: Tx, who: Principal, group: str) -> list[RunnerState]:
    """Return the runners of the caller's organization, in and below a group, that the caller may change.

    An administrator also gets the shared runners, unless a group is named.
    """
    seen = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    below = ""
    if group:
        found = await groups.find(tx, who, group)
        if found.organization_id != who.organization_id:
            raise groups.unseen(group)
        below = found.path
    states = await reads.states_of_organization(tx, who.organization_id or "")
    own = [each for each in states if _is_within(each, below) and seen.covers(runners.place(each.runner))]
    return [*own, *(await reads.states_of_shared(tx) if who.is_system_admin and not below else [])]


def _is_within(state: RunnerState, group: str) -> bool:
    return not group or tree_path.is_within(state.runner.group or "", group)


async def plan(tx: Tx, states: Iterable[RunnerState], release: Release, updaters: Updaters) -> RolloutPlan:
    """Plan the update of those of the runners that are outdated. Disabled runners and those that are being removed are left out."""
    wanted = {
        each.runner.id: each
        for each in states
        if rules.is_outdated(each.version, release.version) and not each.runner.is_disabled and not each.is_removing
    }
    by_hand = await updaters.by_hand(tx, [each.runner for each in wanted.values()], release)
    candidates = [
        WaveCandidate(each.runner.id, each.runner.path)
        for each in wanted.values()
        if each.runner.id not in by_hand and not each.runner.is_shared
    ]
    wave_of = {each: number for number, wave in enumerate(divide(candidates)) for each in wave}
    planned = [_planned(wanted[each], number) for each, number in wave_of.items()]
    planned += [_planned(wanted[each], None, words.reason, words.command) for each, words in by_hand.items()]
    planned.sort(key=lambda each: (each.wave is None, each.wave or 0, each.path))
    passed = await breaking(tx, [each.from_version for each in planned if each.wave is not None], release)
    return RolloutPlan(release, planned, passed)


def _planned(state: RunnerState, wave: int | None, reason: str = "", command: str = "") -> PlannedRunner:
    return PlannedRunner(
        runner_id=state.runner.id,
        group_id=state.runner.group_id or "",
        path=state.runner.path,
        from_version=state.version,
        wave=wave,
        reason=reason,
        command=command,
    )


async def breaking(tx: Tx, versions: Collection[str], release: Release) -> list[BreakingChange]:
    """Return the breaking releases between any of these versions and a release. For an unknown version, all of them count."""
    if not versions:
        return []
    known = [parsed for each in versions if (parsed := parse_version(each)) is not None]
    since = str(min(known, key=lambda each: each.order)) if len(known) == len(versions) else ""
    passed = rules.breaking(await release_store.versions(tx), since, release.version)
    found = await release_store.some(tx, [each.id for each in reversed(passed)])
    return [BreakingChange(each.version, each.breaking_words) for each in found]


def breaking_refusal(passed: Sequence[BreakingChange]) -> str:
    """Return what a person has to know before they accept breaking releases."""
    each = "; ".join(f"{one.version}: {one.words or 'see its notes'}" for one in passed)
    return f"the update is breaking ({each}): do this first, and then accept it (`--accept-breaking`)"
