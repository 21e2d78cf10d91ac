"""Decides which release is the latest one, and which versions lie between two. Pure functions."""

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol, TypeVar

from terracrew.errors import Invalid
from terracrew.source_rules.version_ranges import Version, parse_version

MAX_VERSION_CHARACTERS = 64
_IDENTIFIER = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC = re.compile(
    r"(?:(?:0|[1-9][0-9]{0,8})\.){2}(?:0|[1-9][0-9]{0,8})"
    rf"(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


class PublishedVersion(Protocol):
    """The fields of a release that these rules need."""

    @property
    def version(self) -> str: ...
    @property
    def min_server_version(self) -> str: ...
    @property
    def is_breaking(self) -> bool: ...
    @property
    def withdrawn_at(self) -> datetime | None: ...


R = TypeVar("R", bound=PublishedVersion)


def parse(text: str, field: str = "version") -> Version:
    """Return the semantic version of a release, which has exactly three numbers. Raises Invalid for any other text."""
    version = parse_version(text) if len(text) <= MAX_VERSION_CHARACTERS and _SEMANTIC.fullmatch(text) else None
    if version is None:
        raise Invalid(
            f"{field}: {text[:MAX_VERSION_CHARACTERS]!r} is not a semantic version: it looks like 1.2.3 or 1.2.3-rc.1"
        )
    return version


def latest(releases: Iterable[R], server_version: str) -> R | None:
    """Return the release that runners of this server should have: the highest one that is not withdrawn.

    A release that needs a newer server does not count, and neither does a pre-release, unless the server is one itself.
    A server whose own version is not a semantic one is being developed, so that every release counts.
    """
    own = parse_version(server_version)
    found: list[tuple[Version, R]] = []
    for each in releases:
        version = parse_version(each.version)
        if version is None or each.withdrawn_at is not None:
            continue
        if own is not None and version.prerelease and not own.prerelease:
            continue
        if own is not None and each.min_server_version and is_lower(server_version, each.min_server_version):
            continue
        found.append((version, each))
    return max(found, key=lambda pair: pair[0].order)[1] if found else None


def is_lower(version: str, than: str) -> bool | None:
    """Return whether a version is lower than another one; None if one of them is not a semantic version."""
    first, second = parse_version(version), parse_version(than)
    return None if first is None or second is None else first.order < second.order


def is_outdated(version: str, latest: str) -> bool:
    """Return whether a version is lower than the latest release. One that is not a semantic version is unknown, not outdated."""
    return is_lower(version, latest) is True


def newest_first(releases: Iterable[R]) -> list[R]:
    """Sort releases by their versions, the highest first."""
    return sorted(releases, key=lambda each: parse(each.version).order, reverse=True)


def between(releases: Iterable[R], since: str = "", until: str = "") -> list[R]:
    """Return the releases higher than `since` and not higher than `until`, the highest first. An empty text is no limit.

    Withdrawn ones are included: a person who skipped one may want to know why.
    """
    low, high = _limit(since, "since"), _limit(until, "until")
    return [
        each
        for each in newest_first(releases)
        if (low is None or parse(each.version).order > low.order)
        and (high is None or parse(each.version).order <= high.order)
    ]


def breaking(releases: Iterable[R], since: str, until: str) -> list[R]:
    """Return the breaking releases that an update from `since` to `until` passes, withdrawn ones left out."""
    return [each for each in between(releases, since, until) if each.is_breaking and each.withdrawn_at is None]


def _limit(text: str, field: str) -> Version | None:
    version = parse_version(text) if text else None
    if text and version is None:
        raise Invalid(f"{field}: {text[:MAX_VERSION_CHARACTERS]!r} is not a version: it looks like 1.2.3 or 1.2.3-rc.1")
    return version
