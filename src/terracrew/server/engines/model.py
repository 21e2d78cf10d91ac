"""Decides which version of an engine an instance would run for a module, by pure functions.

A module wants any version, or those in a range such as `~> 1.12`. An instance has some versions, and may be allowed to install
others. The statement of the claim says the same in SQL, by `ranges.py`; tests compare the two.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol import dispatcher_choice
from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice, OfferedDispatcher
from terracrew.source_rules import version_ranges
from terracrew.source_rules.version_ranges import VersionRange
from terracrew.toolchains import specs

_MAX_KEPT_ANSWERS = 256
_decode_dispatchers = msgspec.json.Decoder(list[OfferedDispatcher]).decode


class AvailableEngines(msgspec.Struct, frozen=True, cache_hash=True):
    """The engines of one instance."""

    versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each engine with the versions that the instance has. The first one is used if a module wants no particular version."""
    installable: frozenset[str] = frozenset()
    """The engines of which the instance installs a missing version before it runs a job."""
    dispatchers: str = "[]"
    """The dispatchers that the instance announced, as JSON. Each of them has its own engines."""

    def can_run(self, engine: str, wanted: str, choice: DispatcherChoice = NO_CHOICE) -> bool:
        """Return whether the instance has, or would install, a version that a module wants, where its jobs are started."""
        return resolve(self, engine, wanted, choice) is not None

    def offers(self, choice: DispatcherChoice) -> bool:
        """Return whether the instance has a dispatcher that gives a job what it asks for, whatever its engines are."""
        return not choice or dispatcher_choice.find(choice, announced(self.dispatchers)) is not None


class ResolvedEngine(msgspec.Struct, frozen=True):
    """How an instance would run a job."""

    version: str
    is_any: bool
    """Whether it runs with whatever version is there, because its module accepts any."""
    dispatcher: str = ""
    """The name of the dispatcher that starts it; empty if the job asks for none."""


def available(
    engines: Mapping[str, str],
    versions: Mapping[str, Sequence[str]],
    installable: Sequence[str],
    dispatchers: str = "[]",
) -> AvailableEngines:
    """Return the engines that an instance announced. An older runner announces one version of each engine only."""
    found = {name: tuple(dict.fromkeys((version, *versions.get(name, ())))) for name, version in engines.items()}
    return AvailableEngines(tuple(sorted(found.items())), frozenset(installable), dispatchers)


@lru_cache(maxsize=_MAX_KEPT_ANSWERS)
def announced(dispatchers: str) -> list[OfferedDispatcher]:
    """Return the dispatchers that an instance announced."""
    return _decode_dispatchers(dispatchers)


@lru_cache(maxsize=_MAX_KEPT_ANSWERS)
def resolve(
    have: AvailableEngines, engine: str, wanted: str, choice: DispatcherChoice = NO_CHOICE
) -> ResolvedEngine | None:
    """Return how an instance runs a job that wants this engine in this range of versions; None if it cannot run it.

    A job that asks for a dispatcher gets the first one that allows what it asks for and has the engine.
    """
    if not choice:
        version = resolve_version(have, engine, wanted)
        return None if version is None else ResolvedEngine(version, not wanted and engine in dict(have.versions))
    for offer in dispatcher_choice.named(choice.name, announced(have.dispatchers)):
        if dispatcher_choice.refused(choice, offer.allows):
            continue
        versions = tuple(sorted((name, tuple(found)) for name, found in offer.engines.items()))
        version = resolve_version(AvailableEngines(versions, have.installable), engine, wanted)
        if version is not None:
            return ResolvedEngine(version, not wanted and engine in offer.engines, offer.name)
    return None


@lru_cache(maxsize=_MAX_KEPT_ANSWERS)
def resolve_version(have: AvailableEngines, engine: str, wanted: str) -> str | None:
    """Return the version that an instance runs for a module that wants this engine in this range; None if it cannot run it.

    It is the highest of the versions that the instance has. Only without one of them, a version is installed.
    """
    installed = dict(have.versions).get(engine, ())
    if not wanted:
        if installed:
            return installed[0]
    else:
        parsed = {version: text for text in installed if (version := version_ranges.parse_version(text))}
        if best := version_ranges.parse_range(wanted).highest(parsed):
            return parsed[best]
    return installed_on_demand(engine, wanted) if engine in have.installable else None


@lru_cache(maxsize=_MAX_KEPT_ANSWERS)
def installed_on_demand(engine: str, wanted: str) -> str | None:
    """Return the version that a runner installs for this range; None if Terracrew can install none.

    It is the default version if that is in the range, else the highest version that the range itself names.
    """
    spec = specs.ENGINES.get(engine)
    if spec is None:
        return None
    if not wanted:
        return spec.version
    found = version_ranges.parse_range(wanted)
    default = version_ranges.parse_version(spec.version)
    if default is not None and default in found:
        return spec.version
    best = found.highest(each.version for each in found.conditions)
    if best is None:
        return None
    try:
        return specs.wanted(spec, str(best))
    except Invalid:
        return None


def check_range(text: str) -> VersionRange:
    """Return the range that a person gave for a module. Raises Invalid with the name of the field."""
    try:
        return version_ranges.parse_range(text)
    except Invalid as error:
        raise Invalid(f"engine_version: {error.message}", field="engine_version") from error
