"""Decides which version of Terracrew a runner has, and whether that is lower than the latest release. Pure functions."""

from collections.abc import Iterable

from terracrew.source_rules.version_ranges import parse_version


def current_version(connected: Iterable[str], deployed: str, last: str) -> str:
    """Return the version of a runner: the lowest one of its connected instances that take jobs.

    Without such an instance, it is the version that was deployed for it (a cloud-hosted runner that sleeps), or that of the instance
    with the latest contact. Empty if nothing is known.
    """
    return min(connected, key=_order, default="") or deployed or last


def is_outdated(version: str, latest: str) -> bool:
    """Return whether a version is lower than the latest release. One that is not a semantic version is unknown, not outdated."""
    have, newest = parse_version(version), parse_version(latest)
    return have is not None and newest is not None and have.order < newest.order


def _order(version: str) -> tuple[bool, object]:
    parsed = parse_version(version)
    return parsed is None, parsed.order if parsed else version
