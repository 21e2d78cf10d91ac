"""Semantic versions, and ranges of them in the syntax that Terraform and OpenTofu use: `~> 1.2, != 1.2.5`."""

import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from terracrew.errors import Invalid

MAX_RANGE_CHARACTERS = 200
MAX_VERSION_CHARACTERS = 256
_VERSION = re.compile(
    r"(0|[1-9][0-9]{0,17})(?:\.(0|[1-9][0-9]{0,17}))?(?:\.(0|[1-9][0-9]{0,17}))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)
_PYTHON_WORDS = {"alpha": "a", "beta": "b", "rc": "rc"}
_CONDITION = re.compile(r"(~>|>=|<=|!=|=|>|<|)\s*v?(\S+)")


class Version(msgspec.Struct, frozen=True):
    """A semantic version. Build metadata (`+…`) is not part of it, because it does not affect the order."""

    numbers: tuple[int, int, int]
    prerelease: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[bool, int, str], ...]]:
        """A key by which versions are compared and sorted."""
        # A version without a pre-release is higher than its pre-releases, and numbers are lower than words.
        parts = tuple((not each.isdigit(), int(each) if each.isdigit() else 0, each) for each in self.prerelease)
        return self.numbers, not self.prerelease, parts

    def __str__(self) -> str:
        plain = ".".join(map(str, self.numbers))
        return f"{plain}-{'.'.join(self.prerelease)}" if self.prerelease else plain

    @property
    def python_form(self) -> str | None:
        """The same version as packages of Python write it: 0.1.0rc1 for 0.1.0-rc.1. None if they cannot."""
        plain = ".".join(map(str, self.numbers))
        match self.prerelease:
            case ():
                return plain
            case ("alpha" | "beta" | "rc" as word, number) if re.fullmatch("0|[1-9][0-9]*", number):
                return f"{plain}{_PYTHON_WORDS[word]}{number}"
            case _:
                return None


class _Condition(NamedTuple):
    operator: str
    version: Version
    precision: int
    """How many of its numbers were written, which `~>` depends on."""

    def is_exactly(self, version: Version) -> bool:
        return self.operator in ("", "=") and version == self.version

    def holds(self, version: Version) -> bool:
        match self.operator:
            case "" | "=":
                return version == self.version
            case "!=":
                return version != self.version
            case ">":
                return version.order > self.version.order
            case ">=":
                return version.order >= self.version.order
            case "<":
                return version.order < self.version.order
            case "<=":
                return version.order <= self.version.order
            case _:  # ~>: only the last number that was written may grow
                kept = max(self.precision - 1, 1)
                return version.order >= self.version.order and version.numbers[:kept] == self.version.numbers[:kept]


class VersionRange(msgspec.Struct, frozen=True):
    """Conditions that a version must meet. A pre-release is in a range only if the range names exactly this version."""

    text: str
    conditions: tuple[_Condition, ...]

    def __contains__(self, version: Version) -> bool:
        if version.prerelease and not any(each.is_exactly(version) for each in self.conditions):
            return False
        return all(each.holds(version) for each in self.conditions)

    def highest(self, versions: Iterable[Version]) -> Version | None:
        """Return the highest version that is in the range."""
        return max((each for each in versions if each in self), key=lambda version: version.order, default=None)


def parse_version(text: str) -> Version | None:
    """Return a version with one to three numbers, without or with a `v` before it; None if the text is something else."""
    if len(text) > MAX_VERSION_CHARACTERS or (found := _VERSION.fullmatch(text.removeprefix("v"))) is None:
        return None
    major, minor, patch, prerelease = found.groups()
    return Version(
        (int(major), int(minor or 0), int(patch or 0)), tuple((prerelease or "").split(".")) if prerelease else ()
    )


def parse_range(text: str) -> VersionRange:
    """Return the range that a text describes. Raises Invalid if it does not describe one."""
    if not text.strip() or len(text) > MAX_RANGE_CHARACTERS:
        raise Invalid(
            f"{text[:100]!r} is not a range of versions: it should have 1 to {MAX_RANGE_CHARACTERS} characters"
        )
    return VersionRange(text, tuple(_condition(each.strip(), text) for each in text.split(",")))


def check_of_source(text: str) -> None:
    """Raise Invalid, with the name of the field, if the version that a source asks for is not a range of versions."""
    try:
        if text:
            parse_range(text)
    except Invalid as error:
        raise Invalid.in_field("source.version", error.message) from None


def _condition(text: str, whole: str) -> _Condition:
    found = _CONDITION.fullmatch(text)
    version = parse_version(found[2]) if found else None
    if found is None or version is None:
        raise Invalid(
            f"{whole[:100]!r} is not a range of versions: write conditions like 1.2.3, >= 1.2, != 1.2.4 or ~> 1.2, "
            "with commas between them"
        )
    numbers = re.split(r"[-+]", found[2], maxsplit=1)[0]
    return _Condition(found[1], version, numbers.count(".") + 1)
