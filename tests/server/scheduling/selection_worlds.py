"""Random worlds for selection: a tree, assignments, runners, pins, tags and caps, and what selection does in each."""

from functools import reduce
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from terracrew.protocol.dispatcher_choice import NO_CHOICE, AllowedChoices, DispatcherChoice, OfferedDispatcher
from terracrew.server.engines.model import AvailableEngines, available
from terracrew.server.runners.eligibility import Precedence
from terracrew.server.scheduling.select import JobNeeds
from tests.server.scheduling.selection_reference import Candidate, Selection, select

ANCESTORS = ["a/b", "a", ""]
"""The groups above the module `a/b/m`, the nearest first."""
GROUPS = ["", "a", "a/b", "a/bb", "a/b/c"]
PLACES = ["module", *GROUPS]
SHARED_DISTANCE = len(ANCESTORS) + 1
SOURCE = '{"kind":"local","path":"/srv/x"}'


def encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


class InstanceCase(msgspec.Struct, frozen=True):
    name: str
    state: str
    """`connected`, `draining`, `recent` (disconnected a moment ago), `leaving` (that, while it was draining) or `gone`."""
    engines: frozenset[str]
    capacity: int
    held: tuple[str, ...]
    """The groups of the jobs that it has now."""
    versions: tuple[str, ...] = ("1.12.6",)
    """The versions of each of its engines."""
    installable: frozenset[str] = frozenset()
    further: tuple[OfferedDispatcher, ...] | None = ()
    """The dispatchers that it offers besides the default one; None if it is an older one that announces no dispatchers."""

    @property
    def available(self) -> AvailableEngines:
        defaults = dict.fromkeys(self.engines, self.versions[0])
        versions = dict.fromkeys(self.engines, self.versions)
        return available(defaults, versions, sorted(self.installable), self.dispatchers)

    @property
    def dispatchers(self) -> str:
        if self.further is None:
            return "[]"
        engines = {name: list(self.versions) for name in sorted(self.engines)}
        default = OfferedDispatcher("default", "local", engines=engines)
        return encoded([default, *self.further])


class RunnerCase(msgspec.Struct, frozen=True):
    is_shared: bool
    places: frozenset[str]
    is_disabled: bool
    is_draining: bool
    tags: frozenset[str]
    max_jobs: int
    instances: tuple[InstanceCase, ...]
    can_wake: bool = False

    @property
    def distance(self) -> int | None:
        """The distance of the nearest place of the module that the runner is assigned to; None if there is none."""
        if self.is_shared:
            return SHARED_DISTANCE
        return next((n for n, place in enumerate(["module", *ANCESTORS]) if place in self.places), None)


class World(msgspec.Struct, frozen=True):
    runners: tuple[RunnerCase, ...]
    engine: str
    tags: frozenset[str]
    pinned_runner: int | None
    pinned_name: str | None
    caps: dict[str, int]
    precedence: Precedence
    engine_version: str = ""
    choice: DispatcherChoice = NO_CHOICE

    @property
    def running(self) -> list[str]:
        """The groups of all jobs that run."""
        return [group for runner in self.runners for instance in runner.instances for group in instance.held]

    @property
    def is_capped(self) -> bool:
        return any(
            sum(not path or f"{group}/".startswith(f"{path}/") for group in self.running) >= cap
            for path, cap in self.caps.items()
            if path in ANCESTORS
        )

    def needs(self) -> JobNeeds:
        pin = None if self.pinned_runner is None else f"runner-{self.pinned_runner}"
        return JobNeeds(self.engine, self.tags, self.pinned_name, pin, self.engine_version, self.choice)

    def select(self) -> Selection:
        return select(self.needs(), self.candidates(), self.precedence, is_capped=self.is_capped)

    def candidates(self) -> list[Candidate]:
        found: list[Candidate] = []
        for number, runner in enumerate(self.runners):
            if (distance := runner.distance) is None:
                continue
            can_wake = runner.can_wake and not (runner.is_disabled or runner.is_draining)
            if not runner.instances:
                never = Candidate(f"runner-{number}", None, "", distance, is_open=False, is_connected=False)
                found.append(replace(never, tags=runner.tags, can_wake=can_wake, is_newest=True))
            for place, each in enumerate(runner.instances):
                is_draining = each.state in ("draining", "leaving")
                found.append(
                    Candidate(
                        f"runner-{number}",
                        instance_id(number, place),
                        each.name,
                        distance,
                        is_open=not (runner.is_disabled or runner.is_draining or is_draining),
                        is_connected=each.state in ("connected", "draining"),
                        is_expected=each.state == "recent",
                        tags=runner.tags,
                        engines=each.available,
                        free=min(each.capacity, runner.max_jobs) - len(each.held),
                        can_wake=can_wake,
                        is_newest=place == len(runner.instances) - 1,
                    )
                )
        return found


def instance_id(runner: int, place: int) -> str:
    return f"instance-{runner}-{place}"


_BIG = OfferedDispatcher("big", "docker", AllowedChoices(["team/*"], 1024, 2.0, ["deploy-*"]), {"tofu": ["1.12.6"]})
_SMALL = OfferedDispatcher(
    "small", "docker", AllowedChoices(max_memory_mb=128), {"tofu": ["1.11.4"], "pulumi": ["3.0.0"]}
)
TAGS = [frozenset({"gpu"}), frozenset({"g.u", "gpu"}), frozenset({"GPU", "a_b"})]
_INSTANCE = InstanceCase("one", "connected", frozenset({"tofu"}), 2, (), further=(_SMALL, _BIG))
_RUNNER = RunnerCase(
    is_shared=False,
    places=frozenset({"a"}),
    is_disabled=False,
    is_draining=False,
    tags=frozenset({"gpu"}),
    max_jobs=2,
    instances=(_INSTANCE, replace(_INSTANCE, name="two")),
)
GOOD = World(
    runners=(
        replace(_RUNNER, places=frozenset({"a/b"}), instances=(_INSTANCE,)),
        _RUNNER,
        replace(_RUNNER, places=frozenset({"a", ""}), instances=(replace(_INSTANCE, name="three"),)),
        replace(_RUNNER, places=frozenset[str](), is_shared=True),
    ),
    engine="tofu",
    tags=frozenset[str](),
    pinned_runner=None,
    pinned_name=None,
    caps={},
    precedence="online",
)
_OF_WORLD: dict[str, list[Any]] = {
    "engine": ["pulumi"],
    "engine_version": ["~> 1.12", ">= 1.13, != 1.13.2", "1.13.0-rc1"],
    "choice": [
        DispatcherChoice("docker", "team/app:1", 512, 1.0, "deploy-a"),
        DispatcherChoice("big", memory_mb=1024),
        DispatcherChoice("docker", memory_mb=128),
        DispatcherChoice("small"),
        DispatcherChoice("big", "other/app:1"),
        DispatcherChoice("kubernetes"),
        DispatcherChoice(cpu=1.0),
    ],
    "tags": TAGS,
    "pinned_runner": [0, 1, 3],
    "pinned_name": ["one", "two", "three", "four"],
    "caps": [{"": 1}, {"a": 1}, {"a": 2}, {"a/b": 1}, {"a/b": 2, "a": 1}, {"a/bb": 1}],
    "precedence": ["configured", "configured"],
}
_OF_RUNNER: dict[str, list[Any]] = {
    "places": [frozenset({"module"}), frozenset({"a/b"}), frozenset({"a/bb"}), frozenset({"a/b/c"}), frozenset[str]()],
    "is_disabled": [True],
    "is_draining": [True],
    "tags": [frozenset[str](), frozenset({"a_b", "GPU", "gpu", "g.u"}), frozenset({"g-u", "gpu2", "a-b"})],
    "max_jobs": [1],
    "instances": [()],
    "can_wake": [True],
}
_OF_INSTANCE: dict[str, list[Any]] = {
    "state": ["draining", "recent", "recent", "recent", "recent", "leaving", "gone", "gone"],
    "engines": [frozenset({"pulumi"}), frozenset({"tofu", "pulumi"}), frozenset({"tofu2"})],
    "versions": [("1.13.2", "1.11.4"), ("1.13.0-rc1", "of no number")],
    "installable": [frozenset({"tofu"})],
    "further": [None, (), (_SMALL,), (_BIG, _SMALL), (replace(_BIG, allows=AllowedChoices()),)],
    "capacity": [1],
    "held": [("a/b",), ("a",), ("a/bb",), ("a/b", "a/b/c"), ("", "")],
}


def _change(world: World, change: tuple[int | None, int | None, str, Any]) -> World:
    """Set one field of the world, of a runner, or of an instance."""
    runner, place, field, value = change
    if runner is None:
        return replace(world, **{field: value})
    runners = list(world.runners)
    if place is None:
        runners[runner] = replace(runners[runner], **{field: value})
    elif place < len(runners[runner].instances):
        instances = list(runners[runner].instances)
        instances[place] = replace(instances[place], **{field: value})
        runners[runner] = replace(runners[runner], instances=tuple(instances))
    return replace(world, runners=tuple(runners))


_ASLEEP = replace(_RUNNER, places=frozenset({"a/b"}), instances=(replace(_INSTANCE, state="gone"),), can_wake=True)
_FULL = replace(_RUNNER, places=frozenset({"a/b"}), instances=(replace(_INSTANCE, capacity=1, held=("a/bb",)),))
_EMPTY = tuple(replace(each, instances=()) for each in GOOD.runners)
_CHANGES = (
    [(None, None, field, value) for field, values in _OF_WORLD.items() for value in values for _ in range(4)]
    + [(n, None, field, value) for n in range(4) for field, values in _OF_RUNNER.items() for value in values]
    + [
        (n, i, field, value)
        for n, i in ((0, 0), (0, 0), (0, 0), (1, 0), (1, 1), (3, 0))
        for field, values in _OF_INSTANCE.items()
        for value in values
    ]
    + [(None, None, "caps", {"": 1}), (3, 0, "held", ("a/b",))] * 5
    + [(None, None, "runners", _EMPTY)] * 6
    + [(None, None, "runners", (_FULL, *GOOD.runners[1:]))] * 10
    + [(None, None, "runners", (each, *GOOD.runners[1:])) for each in (_ASLEEP, replace(_ASLEEP, instances=()))] * 8
)
WORLDS = st.lists(st.sampled_from(_CHANGES), min_size=1, max_size=9).map(lambda changes: reduce(_change, changes, GOOD))
"""Several changes of a world in which everything is in order: where much is wrong, nothing is offered, and nothing is tested."""
