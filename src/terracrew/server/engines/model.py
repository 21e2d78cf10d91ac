"""Decides which version of an engine an instance would run for a module, by pure functions.

A module wants any version, or those in a range such as `~> 1.12`. An instance has some versions, and may be allowed to install
others. The statement of the claim says the same in SQL, by the `intervals` of a range; tests compare the two.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from terracrew.errors import Invalid
from terracrew.protocol import dispatcher_choice
from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice, OfferedDispatcher
from terracrew.source_rules import version_ranges
from terracrew.source_rules.version_ranges import Version, VersionRange
from terracrew.toolchains import specs

_MAX_KEPT_ANSWERS = 256
_decode_dispatchers = msgspec.json.Decoder(list[OfferedDispatcher]).decode
_MAX_MAJOR, _MAX_OTHER = 999_999, 999_999
_MAX_POSITION = (_MAX_MAJOR + 1) * 10**12
PRERELEASE_KEY = -1
"""No interval contains it: a pre-release is in a range only if the range names exactly this version."""


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
    """Return the engines that an instance announced, each with its default version first."""
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
        raise Invalid.in_field("engine_version", error.message) from error


class Interval(msgspec.Struct, frozen=True):
    low: int
    """The position of the first release that is in the range."""
    high: int
    """The position of the first release after it that is not."""
    version: str | None = None
    """A pre-release that is in the range; None if the interval has releases."""
    installs: str | None = None
    """The version that a runner would install for the range; None if there is none."""


def position(version: Version) -> int:
    """Return the place of a release in the order of all releases."""
    if version.prerelease:
        return PRERELEASE_KEY
    return _position(*version.numbers)


def position_of(text: str) -> int:
    """Return the place of a version that an instance announced. A text that is not a version is in no interval."""
    version = version_ranges.parse_version(text)
    return PRERELEASE_KEY if version is None else position(version)


def intervals(engine: str, wanted: str) -> list[Interval]:
    """Return the intervals of a range. At least one is returned, which may be empty, so that every range has rows."""
    found = version_ranges.parse_range(wanted)
    installs = installed_on_demand(engine, wanted)
    low, high, excluded = 0, _MAX_POSITION, set[int]()
    for condition in found.conditions:
        at, is_release = _position(*condition.version.numbers), not condition.version.prerelease
        match condition.operator:
            case "" | "=":
                low, high = (max(low, at), min(high, at + 1)) if is_release else (0, 0)
            case "!=":
                excluded |= {at} if is_release else set()
            case ">":
                low = max(low, at + is_release)
            case ">=":
                low = max(low, at)
            case "<":
                high = min(high, at)
            case "<=":
                high = min(high, at + is_release)
            case _:  # ~>: only the last number that was written may grow
                kept = max(condition.precision - 1, 1)
                numbers = [*condition.version.numbers[: kept - 1], condition.version.numbers[kept - 1] + 1, 0, 0]
                low, high = max(low, at), min(high, _position(*numbers[:3]))
    rows: list[Interval] = []
    for each in sorted(excluded | {high}):
        if low <= each <= high:
            rows.append(Interval(low, each, installs=installs))
            low = each + 1
    names = {str(each.version) for each in found.conditions if each.version.prerelease and each.version in found}
    # The interval of a pre-release is empty, and its position only tells the rows of a range apart.
    rows += [Interval(-2 - number, -2 - number, name, installs) for number, name in enumerate(sorted(names))]
    return rows or [Interval(0, 0, installs=installs)]


def _position(major: int, minor: int, patch: int) -> int:
    return min(major, _MAX_MAJOR) * 10**12 + min(minor, _MAX_OTHER) * 10**6 + min(patch, _MAX_OTHER)
