"""Random worlds for selection: a tree, assignments, runners, pins, tags and caps, as candidates and as rows."""

from functools import reduce
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec.structs import replace

from terracrew.protocol.dispatcher_choice import NO_CHOICE, AllowedChoices, DispatcherChoice, OfferedDispatcher
from terracrew.server.connections.registry import Registry, RunnerSession
from terracrew.server.db.seam import Param, Tx
from terracrew.server.engines import store as engine_store
from terracrew.server.engines.model import AvailableEngines, available
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runners.eligibility import GRACE_SECONDS, Precedence
from terracrew.server.scheduling.select import Candidate, JobNeeds, Selection, select
from terracrew.testing.rows import insert
from tests.server.scheduling.recorded_offers import Socket

ANCESTORS = ["a/b", "a", ""]
"""The groups above the module `a/b/m`, the nearest first."""
GROUPS = ["", "a", "a/b", "a/bb", "a/b/c"]
PLACES = ["module", *GROUPS]
SHARED_DISTANCE = len(ANCESTORS) + 1
SOURCE = '{"kind":"local","path":"/srv/x"}'


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
        return _encoded([default, *self.further])


class RunnerCase(msgspec.Struct, frozen=True):
    is_shared: bool
    places: frozenset[str]
    is_disabled: bool
    is_draining: bool
    tags: frozenset[str]
    max_jobs: int
    instances: tuple[InstanceCase, ...]

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
            if not runner.instances:
                found.append(Candidate(f"runner-{number}", None, "", distance, is_open=False, is_connected=False))
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
    "caps": [{"": 1}, {"a": 2}, {"a/b": 1}, {"a/b": 2, "a": 1}, {"a/bb": 1}],
    "precedence": ["configured", "configured"],
}
_OF_RUNNER: dict[str, list[Any]] = {
    "places": [frozenset({"module"}), frozenset({"a/b"}), frozenset({"a/bb"}), frozenset({"a/b/c"}), frozenset[str]()],
    "is_disabled": [True],
    "is_draining": [True],
    "tags": [frozenset[str](), frozenset({"a_b", "GPU", "gpu", "g.u"}), frozenset({"g-u", "gpu2", "a-b"})],
    "max_jobs": [1],
    "instances": [()],
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


_CHANGES = (
    [(None, None, field, value) for field, values in _OF_WORLD.items() for value in values for _ in range(4)]
    + [(n, None, field, value) for n in range(4) for field, values in _OF_RUNNER.items() for value in values]
    + [
        (n, i, field, value)
        for n, i in ((0, 0), (0, 0), (0, 0), (1, 0), (1, 1), (3, 0))
        for field, values in _OF_INSTANCE.items()
        for value in values
    ]
)
WORLDS = st.lists(st.sampled_from(_CHANGES), min_size=1, max_size=9).map(lambda changes: reduce(_change, changes, GOOD))
"""Several changes of a world in which everything is in order: where much is wrong, nothing is offered, and nothing is tested."""


def _json(values: frozenset[str]) -> str:
    return msgspec.json.encode(sorted(values)).decode()


async def build(tx: Tx, world: World) -> None:
    """Insert the rows of a world. The queued job is `job`."""
    now: dict[str, Param] = {"created_at": tx.now}
    of: dict[str, Param] = {"organization_id": "org"}
    await insert(tx, "organizations", id="org", name="org", **now)
    for path in GROUPS:
        parent = None if not path else f"group-{path.rpartition('/')[0]}"
        names: dict[str, Param] = {"name": path.rpartition("/")[2], "path": path, "depth": path.count("/") + bool(path)}
        await insert(
            tx,
            "groups",
            id=f"group-{path}",
            parent_id=parent,
            max_running_jobs=world.caps.get(path),
            **names,
            **of,
            **now,
        )
    pin = None if world.pinned_runner is None else f"runner-{world.pinned_runner}"
    wanted: dict[str, Param] = {"engine": world.engine, "engine_version": world.engine_version}
    if world.engine_version:
        await engine_store.remember_range(tx, world.engine, world.engine_version)
    await _module(tx, "module", "a/b", "m", tags=_json(world.tags), runner_id=pin, pin=world.pinned_name, **wanted)
    await _job(tx, "job", "module", "a/b/m", 1, "QUEUED", None, _encoded(world.choice))
    for number, runner in enumerate(world.runners):
        await _runner(tx, world, number, runner)


async def _module(tx: Tx, module_id: str, group: str, name: str, **values: Param) -> None:
    row: dict[str, Param] = {
        "id": module_id,
        "organization_id": "org",
        "group_id": f"group-{group}",
        "name": name,
        "path": f"{group}/{name}".lstrip("/"),
        "engine": values.get("engine", "tofu"),
        "engine_version": values.get("engine_version", ""),
        "tags": values.get("tags", "[]"),
        "runner_id": values.get("runner_id"),
        "runner_instance_name": values.get("pin"),
        "source": SOURCE,
        "created_at": tx.now,
    }
    await insert(tx, "modules", **row)


async def _job(
    tx: Tx,
    job_id: str,
    module_id: str,
    module_path: str,
    number: int,
    status: str,
    instance: str | None,
    dispatcher: str = "{}",
) -> None:
    row: dict[str, Param] = {
        "id": job_id,
        "organization_id": "org",
        "module_id": module_id,
        "module_path": module_path,
        "number": number,
        "type": "PLAN",
        "status": status,
        "instance_id": instance,
        "dispatcher": dispatcher,
        "source": SOURCE,
        "created_by": "test",
        "created_at": tx.now,
        "queued_at": tx.now,
    }
    await insert(tx, "jobs", **row)


async def _runner(tx: Tx, world: World, number: int, runner: RunnerCase) -> None:
    runner_id = f"runner-{number}"
    await insert(
        tx,
        "runners",
        id=runner_id,
        organization_id=None if runner.is_shared else "org",
        group_id=None if runner.is_shared else "group-",
        name=runner_id,
        path=runner_id,
        type="self-hosted",
        is_draining=runner.is_draining,
        is_disabled=runner.is_disabled,
        max_jobs=runner.max_jobs,
        tags=_json(runner.tags),
        worker_token_sha256="x",
        created_at=tx.now,
    )
    for place in () if runner.is_shared else sorted(runner.places):
        is_module = place == "module"
        await insert(
            tx,
            "assignments",
            runner_id=runner_id,
            place_id="module" if is_module else f"group-{place}",
            kind="module" if is_module else "group",
            organization_id="org",
            path="a/b/m" if is_module else place,
            created_at=tx.now,
        )
    for place, instance in enumerate(runner.instances):
        await _instance(tx, runner_id, instance_id(number, place), instance)


def _encoded(value: object) -> str:
    return msgspec.json.encode(value).decode()


async def _instance(tx: Tx, runner_id: str, its_id: str, instance: InstanceCase) -> None:
    gone_at = {"recent": tx.now - GRACE_SECONDS / 2, "leaving": tx.now - 1, "gone": tx.now - 2 * GRACE_SECONDS}
    await insert(
        tx,
        "instances",
        id=its_id,
        runner_id=runner_id,
        name=instance.name,
        key_sha256="",
        epoch=1,
        version="0",
        capacity=instance.capacity,
        engines=_encoded(dict.fromkeys(sorted(instance.engines), instance.versions[0])),
        engine_versions=_encoded(dict.fromkeys(sorted(instance.engines), instance.versions)),
        installable_engines=_encoded(sorted(instance.installable)),
        dispatchers=instance.dispatchers,
        is_connected=instance.state in ("connected", "draining"),
        is_draining=instance.state in ("draining", "leaving"),
        connected_at=tx.now,
        disconnected_at=gone_at.get(instance.state),
        heard_at=tx.now,
    )
    await engine_store.set_available(tx, its_id, instance.available)
    for count, group in enumerate(instance.held):
        name = f"{its_id}-{count}"
        await _module(tx, name, group, name)
        await _job(
            tx,
            f"job-{name}",
            name,
            f"{group}/{name}".lstrip("/"),
            int.from_bytes(name.encode()) % 2**60,
            "CLAIMED",
            its_id,
        )


def connected(world: World) -> Registry:
    """Return a registry in which every connected instance of a world has a session."""
    registry = Registry()
    for number, runner in enumerate(world.runners):
        for place, each in enumerate(runner.instances):
            if each.state not in ("connected", "draining"):
                continue
            session = RunnerSession(
                Socket(),  # pyright: ignore[reportArgumentType]
                SYSTEM,
                runner_id=f"runner-{number}",
                instance_id=instance_id(number, place),
                name=each.name,
                epoch=1,
                engines=each.available,
                slots=min(each.capacity, runner.max_jobs),
                tags=runner.tags,
                is_draining=each.state == "draining",
            )
            session.is_closed = runner.is_disabled or runner.is_draining
            registry.add(session)
    return registry
