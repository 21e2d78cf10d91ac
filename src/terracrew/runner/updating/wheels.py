"""Chooses the wheels of a release that this machine needs: Terracrew itself, and what it requires and the environment lacks.

An environment that people made has almost everything already. A release that needs more has it as a wheel beside its own, or it cannot
be installed here: a runner fetches nothing from a package index.
"""

import importlib.metadata
import sys
from collections.abc import Iterable, Mapping
from email.parser import HeaderParser
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import sys_tags
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from terracrew.errors import Invalid
from terracrew.protocol.messages import ArtifactRef
from terracrew.source_rules.version_ranges import parse_version
from terracrew.system import own_program

NAME = "terracrew"
_MAX_METADATA_BYTES = 1 << 20


class WheelMetadata:
    """What a wheel says about itself."""

    def __init__(self, path: Path) -> None:
        try:
            with ZipFile(path) as archive:
                name = next(each for each in archive.infolist() if each.filename.endswith(".dist-info/METADATA"))
                if name.file_size > _MAX_METADATA_BYTES:
                    raise Invalid(f"{path.name} is not a wheel: its metadata has {name.file_size:,} bytes")
                found = HeaderParser().parsestr(archive.read(name).decode())
        except (BadZipFile, StopIteration, UnicodeDecodeError, OSError) as error:
            raise Invalid(f"{path.name} is not a wheel: {error}") from error
        self.name, self.version = canonicalize_name(str(found["Name"])), str(found["Version"])
        self._requires_python = str(found["Requires-Python"] or "")
        self._requires: list[str] = [str(each) for each in found.get_all("Requires-Dist") or ()]

    def requirements(self, extras: Iterable[str] = ()) -> list[Requirement]:
        """Return what it requires on this machine, with these of its optional parts."""
        wanted = ["", *extras]
        try:
            found = [Requirement(each) for each in self._requires]
        except InvalidRequirement as error:
            raise Invalid(f"{self.name} {self.version} has a requirement that cannot be read: {error}") from error
        return [
            each
            for each in found
            if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in wanted)
        ]

    def require_python(self) -> None:
        own = ".".join(map(str, sys.version_info[:3]))
        try:
            is_right = SpecifierSet(self._requires_python).contains(own, prereleases=True)
        except InvalidSpecifier:
            is_right = False
        if not is_right:
            raise Invalid(f"{self.name} {self.version} needs Python {self._requires_python}, and this runner has {own}")


def require_newer(version: str, own: str) -> None:
    """Raise Invalid unless this is a release with a higher version than the one that runs."""
    wanted, current = parse_version(version), parse_version(own)
    if wanted is None or version.count(".") < 2 or version.startswith("v"):
        raise Invalid(f"{version!r} is not the version of a release")
    if current is not None and wanted.order <= current.order:
        raise Invalid(f"this runner has {own}, and {version} is not newer: a runner is never set back by an update")


def choose(artifacts: Iterable[ArtifactRef], name: str = NAME, version: str = "") -> ArtifactRef:
    """Return the wheel of this package that fits this machine best. Raises Invalid if there is none."""
    order = {tag: number for number, tag in enumerate(sys_tags())}
    fitting: list[tuple[int, ArtifactRef]] = []
    others: list[str] = []
    for each in artifacts:
        try:
            found, number, _, tags = parse_wheel_filename(each.name)
        except (InvalidWheelFilename, InvalidVersion):
            continue
        if found != canonicalize_name(name) or (version and number != Version(version)):
            continue
        known = [order[tag] for tag in tags if tag in order]
        if known:
            fitting.append((min(known), each))
        else:
            others.append(each.name)
    if fitting:
        return min(fitting, key=lambda pair: pair[0])[1]
    if others:
        raise Invalid(
            f"the release has no wheel of {name} for this platform and Python, but {', '.join(sorted(others))}"
        )
    raise Invalid(f"the release has no wheel of {name}")


def installed() -> dict[str, str]:
    """Return the packages of the environment with their versions, without those of an overlay that this process runs from."""
    overlay = own_program.overlay()
    own = str(Path(overlay) / own_program.SITE) if overlay else ""
    found: dict[str, str] = {}
    for each in importlib.metadata.distributions(path=[path for path in sys.path if path != own]):
        name = str(each.metadata["Name"] or "")
        found.setdefault(canonicalize_name(name), each.version)
    return found


def missing(requirements: Iterable[Requirement], has: Mapping[str, str]) -> list[Requirement]:
    """Return the requirements that these packages do not meet."""
    return [each for each in requirements if not _is_met(each, has.get(canonicalize_name(each.name)))]


def _is_met(requirement: Requirement, version: str | None) -> bool:
    return version is not None and requirement.specifier.contains(version, prereleases=True)
