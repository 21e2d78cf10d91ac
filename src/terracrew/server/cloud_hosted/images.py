"""Which image the instances of a cloud-hosted runner have, if people chose none."""

from terracrew.server.releases.model import Release
from terracrew.source_rules import version_ranges

RUNNER_IMAGE = "terracrew-runner"
"""The name of the runner's image among the artifacts of a release."""
VERSION_MARK = "{version}"
"""What `cloud_runner_image` has in the place of the version."""


def of_version(default_image: str, version: str) -> str:
    """Return the image of the server's settings for a version. A tag cannot have the `+` of build metadata."""
    return default_image.replace(VERSION_MARK, version.replace("+", "_"))


def of_release(release: Release, default_image: str) -> str:
    """Return the image of a release: the one that was published with it, or that of the server's settings; empty if there is none."""
    if (found := release.image(RUNNER_IMAGE)) is not None:
        return found.reference
    return of_version(default_image, release.version) if VERSION_MARK in default_image else ""


def is_newer(version: str, other: str) -> bool:
    """Return whether a version is higher than another one. One that is not semantic is not."""
    first, second = version_ranges.parse_version(version), version_ranges.parse_version(other)
    return first is not None and second is not None and first.order > second.order
