"""The rule that selects the instances which a queued job may go to, or tells why there are none, as pure functions.

The scheduler applies them to connected instances, `explain` to numbers that the database has counted, and the statement of the claim
says the same in SQL (`runners/eligibility.py`). A test has the whole rule as one function, and compares all of them on both databases.

A tier is the set of runners that are assigned to the same place: the module, its group, each group above it, and everything (the
shared runners). Only the nearest tier that is available gets the job. A tier that is full, or that lacks a tag, a dispatcher
or an engine, is available: the job waits, and does not go to a farther tier. A cloud-hosted runner without an instance is
available as long as it can be woken: its jobs wait until it has started.
"""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol, TypeVar

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.server.engines.model import AvailableEngines
from terracrew.server.runners.eligibility import Precedence

Code = Literal[
    "no_assignment",
    "none_online",
    "settling",
    "waking",
    "instance_absent",
    "wrong_tag",
    "no_dispatcher",
    "no_engine",
    "capped",
    "all_full",
    "offered",
]
"""What selection says about a job. Each code is the code of a `Reason`."""


class JobNeeds(msgspec.Struct, frozen=True):
    """What a job needs of an instance, as its module and its plan say."""

    engine: str
    tags: frozenset[str] = frozenset()
    instance_name: str | None = None
    """The name of the instance that the module is pinned to; None if there is none."""
    runner_id: str | None = None
    """The only runner that may take the job, because the module names it or because it made the plan; None if any may."""
    engine_version: str = ""
    """The range of versions of the engine that the job may run with; empty for any."""
    choice: DispatcherChoice = NO_CHOICE
    """What the job asks of the dispatcher that starts it."""


class ConnectedInstance(Protocol):
    """A connected instance that takes jobs."""

    @property
    def name(self) -> str: ...
    @property
    def tags(self) -> frozenset[str]: ...
    @property
    def engines(self) -> AvailableEngines: ...
    @property
    def free(self) -> int: ...


class Tier(msgspec.Struct, frozen=True):
    """The numbers of one tier. Each number of instances counts those of the number before it that meet one more condition."""

    runners: int
    expected: int
    """The instances that are online, or were a moment ago."""
    expected_named: int
    """Those of them that have the name that the module is pinned to; all of them if there is no such name."""
    online: int
    named: int
    tagged: int
    offering: int
    """How many of them offer the dispatcher that the job asks for, too, and allow what it asks for."""
    able: int
    """How many of them have the engine in a wanted version, too: these can run the job."""
    free: int
    """How many of them have a free slot, too: the job may go to these."""
    wakeable: int
    """How many of the runners can be woken for the job. No runner is woken for a job that is pinned to the name of an instance."""
    wakeable_tagged: int
    wakeable_offering: int
    wakeable_able: int
    """How many of them have the engine in a wanted version, too, as far as that is known."""


def lacks(needs: JobNeeds, instance: ConnectedInstance) -> Code | None:
    """Return the first condition of a job that an online instance does not meet; None if the instance may have the job."""
    if needs.instance_name not in (None, instance.name):
        return "instance_absent"
    if not needs.tags <= instance.tags:
        return "wrong_tag"
    if not instance.engines.offers(needs.choice):
        return "no_dispatcher"
    if not instance.engines.can_run(needs.engine, needs.engine_version, needs.choice):
        return "no_engine"
    return None if instance.free > 0 else "all_full"


def lacks_asleep(needs: JobNeeds, tags: frozenset[str], engines: AvailableEngines | None) -> Code | None:
    """Return the first condition of a job that a runner without an instance would not meet; None if it can be woken for the job.

    Its next instance has the engines that the newest one announced. If it never had one (None), it may have any.
    """
    if needs.instance_name is not None:
        return "instance_absent"
    if not needs.tags <= tags:
        return "wrong_tag"
    if engines is not None and not engines.offers(needs.choice):
        return "no_dispatcher"
    if engines is not None and not engines.can_run(needs.engine, needs.engine_version, needs.choice):
        return "no_engine"
    return None


Requirement = Literal["assigned", "online", "online_with_name"]
"""What makes a tier available to a job: that it has a runner, that one is online, or that one with the wanted name is."""


def requirement(needs: JobNeeds, precedence: Precedence) -> Requirement:
    """Return what makes a tier available to a job.

    A job that is bound to one runner waits for it in any case. A job that is pinned to an instance by its name alone goes to the
    nearest runner that has such an instance online, whatever the precedence is: the name does not say which runner is meant.
    """
    if needs.runner_id is not None:
        return "assigned"
    if needs.instance_name is not None:
        return "online_with_name"
    return "assigned" if precedence == "configured" else "online"


AnyTier = TypeVar("AnyTier", bound=Tier)


def nearest(needs: JobNeeds, tiers: Iterable[AnyTier], precedence: Precedence) -> AnyTier | None:
    """Return the tier that a job waits for; None if none is available. The tiers are those with runners, the nearest first."""
    required = requirement(needs, precedence)
    for tier in tiers:
        online = tier.expected + tier.wakeable
        numbers = {"assigned": tier.runners, "online": online, "online_with_name": tier.expected_named}
        if numbers[required]:
            return tier
    return None


def judge(tiers: Sequence[Tier], tier: Tier | None, *, is_capped: bool) -> Code:
    """Return what a job waits for, from the numbers of its tiers and of the nearest one that is available."""
    if not tiers:
        return "no_assignment"
    if tier is None:
        return "instance_absent" if any(each.online for each in tiers) else "none_online"
    if not tier.online and tier.wakeable:
        return _judge_sleeping(tier, is_capped=is_capped)
    if not tier.online:
        return "settling" if tier.expected and any(each.online for each in tiers) else "none_online"
    if not tier.named:
        return "settling" if tier.expected_named and any(each.named for each in tiers) else "instance_absent"
    if not tier.tagged:
        return "wrong_tag"
    if not tier.offering:
        return "no_dispatcher"
    if not tier.able:
        return "no_engine"
    if is_capped:
        return "capped"
    return "offered" if tier.free else "all_full"


def _judge_sleeping(tier: Tier, *, is_capped: bool) -> Code:
    """Return what a job waits for if its tier has no instance that is online, and a runner that can be woken."""
    if not tier.wakeable_tagged:
        return "wrong_tag"
    if not tier.wakeable_offering:
        return "no_dispatcher"
    if not tier.wakeable_able:
        return "no_engine"
    return "capped" if is_capped else "waking"
