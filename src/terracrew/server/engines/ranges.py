"""Turns a range of versions into intervals of integers, so that SQL can compare the versions of instances with it."""

import msgspec

from terracrew.server.engines.model import installed_on_demand
from terracrew.source_rules import version_ranges
from terracrew.source_rules.version_ranges import Version

_MAX_MAJOR, _MAX_OTHER = 999_999, 999_999
_MAX_POSITION = (_MAX_MAJOR + 1) * 10**12
PRERELEASE_KEY = -1
"""No interval contains it: a pre-release is in a range only if the range names exactly this version."""


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
