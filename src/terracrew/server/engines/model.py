"""Decides which version of an engine an instance would run for a module, by pure functions.

A module wants any version, or those in a range such as `~> 1.12`. An instance has some versions, and may be allowed to install
others. The statement of the claim says the same in SQL, by `ranges.py`; tests compare the two.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

import msgspec

from terracrew import version_ranges
from terracrew.errors import Invalid
from terracrew.toolchains import specs
from terracrew.version_ranges import VersionRange

_MAX_KEPT_ANSWERS = 10_000


class AvailableEngines(msgspec.Struct, frozen=True, cache_hash=True):
    """The engines of one instance."""

    versions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Each engine with the versions that the instance has. The first one is used if a module wants no particular version."""
    installable: frozenset[str] = frozenset()
    """The engines of which the instance installs a missing version before it runs a job."""

    def can_run(self, engine: str, wanted: str) -> bool:
        """Return whether the instance has, or would install, a version that a module wants."""
        return resolve(self, engine, wanted) is not None


def available(
    engines: Mapping[str, str], versions: Mapping[str, Sequence[str]], installable: Sequence[str]
) -> AvailableEngines:
    """Return the engines that an instance announced. An older runner announces one version of each engine only."""
    found = {name: tuple(dict.fromkeys((version, *versions.get(name, ())))) for name, version in engines.items()}
    return AvailableEngines(tuple(sorted(found.items())), frozenset(installable))


@lru_cache(maxsize=_MAX_KEPT_ANSWERS)
def resolve(have: AvailableEngines, engine: str, wanted: str) -> str | None:
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
