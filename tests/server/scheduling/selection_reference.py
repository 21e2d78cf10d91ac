"""The whole rule of selection as one function: it maps a job and the instances of its runners to a tier, instances and a reason."""

from collections.abc import Iterable, Sequence

import msgspec

from terracrew.server.engines.model import AvailableEngines
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling.select import Code, JobNeeds, Tier, judge, lacks, lacks_asleep, nearest


class Candidate(msgspec.Struct, frozen=True):
    """An instance of a runner that the module may use. A runner that has never connected is a candidate without an instance."""

    runner_id: str
    instance_id: str | None
    name: str
    distance: int
    """Counts the places from the module (0) up to the nearest one that the runner is assigned to. Shared runners are the farthest."""
    is_open: bool
    """Whether the runner is enabled and not draining, and the instance is not draining either."""
    is_connected: bool
    is_expected: bool = False
    """Whether it disconnected so short a time ago that it still counts as online for precedence."""
    tags: frozenset[str] = frozenset()
    engines: AvailableEngines = AvailableEngines()
    free: int = 0
    can_wake: bool = False
    """Whether the runner is enabled and not draining, and the cloud starts an instance of it as soon as a job needs one."""
    is_newest: bool = False
    """Whether no instance of the runner is newer: what this one announced is what the next one will have."""


class Selection(msgspec.Struct, frozen=True):
    tier: int | None
    """The distance of the tier that the job waits for; None if no tier is available."""
    instances: tuple[str, ...]
    """The ids of the instances that the job may be claimed for."""
    code: Code


def select(needs: JobNeeds, candidates: Iterable[Candidate], precedence: Precedence, *, is_capped: bool) -> Selection:
    """Select the instances that a job may go to.

    `is_capped` tells whether a group above the module has as many running jobs as it may have.
    """
    members: dict[int, list[Candidate]] = {}
    for each in candidates:
        if needs.runner_id in (None, each.runner_id):
            members.setdefault(each.distance, []).append(each)
    tiers = {distance: summarize(needs, members[distance]) for distance in sorted(members)}
    tier = nearest(needs, tiers.values(), precedence)
    code = judge(list(tiers.values()), tier, is_capped=is_capped)
    distance = next((distance for distance, each in tiers.items() if each is tier), None)
    if distance is None or code != "offered":
        return Selection(distance, (), code)
    online = [each for each in members[distance] if each.is_open and each.is_connected]
    return Selection(distance, tuple(each.instance_id or "" for each in online if lacks(needs, each) is None), code)


def summarize(needs: JobNeeds, candidates: Sequence[Candidate]) -> Tier:
    """Count the instances of one tier."""
    expected = [each for each in candidates if each.is_open and (each.is_connected or each.is_expected)]
    online = [each for each in expected if each.is_connected]
    named = [each for each in online if needs.instance_name in (None, each.name)]
    tagged = [each for each in named if needs.tags <= each.tags]
    offering = [each for each in tagged if each.engines.offers(needs.choice)]
    able = [each for each in offering if each.engines.can_run(needs.engine, needs.engine_version, needs.choice)]
    wakeable = [each for each in candidates if each.can_wake and each.is_newest and needs.instance_name is None]
    lacking = [lacks_asleep(needs, each.tags, None if each.instance_id is None else each.engines) for each in wakeable]
    return Tier(
        runners=len({each.runner_id for each in candidates}),
        expected=len(expected),
        expected_named=sum(needs.instance_name in (None, each.name) for each in expected),
        online=len(online),
        named=len(named),
        tagged=len(tagged),
        offering=len(offering),
        able=len(able),
        free=sum(each.free > 0 for each in able),
        wakeable=len(wakeable),
        wakeable_tagged=sum(code != "wrong_tag" for code in lacking),
        wakeable_offering=sum(code not in ("wrong_tag", "no_dispatcher") for code in lacking),
        wakeable_able=sum(code is None for code in lacking),
    )
