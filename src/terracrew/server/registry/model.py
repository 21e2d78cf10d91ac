"""The rows of this package, and the names under which engines know them."""

import re
from datetime import datetime

import msgspec

from terracrew.api.registry import PublishedModuleSettings, RefusedTag
from terracrew.errors import Invalid
from terracrew.server.principals.model import Principal
from terracrew.source_rules import version_ranges
from terracrew.source_rules.version_ranges import Version

_NAMESPACE = re.compile(r"[0-9a-z](?:[0-9a-z_-]{0,62}[0-9a-z])?")
_NAME = re.compile(r"[0-9a-z](?:[0-9a-z_-]{0,62}[0-9a-z])?")
_SYSTEM = re.compile(r"[0-9a-z]{1,64}")
_VERSION = re.compile(r"(?:0|[1-9][0-9]*)(?:\.(?:0|[1-9][0-9]*)){2}(?:-[0-9A-Za-z.-]+)?")


class PublishedModule(PublishedModuleSettings, frozen=True, kw_only=True):
    """A module that a group publishes."""

    id: str
    organization_id: str
    group_id: str
    group: str = ""
    """The path of its group."""
    name: str
    system: str
    latest: str = ""
    created_by: str
    created_by_name: str
    created_at: datetime
    changed_at: datetime
    revision: int = 1
    """It increases with every change that a person makes."""
    looked_at: datetime | None = None
    problem: str = ""
    refused_tags: list[RefusedTag] = msgspec.field(default_factory=list[RefusedTag])
    due_at: datetime | None = None
    asked_at: datetime | None = None
    """When a person or a forge has last asked for a look at the tags."""
    failures: int = 0
    lease_holder: str | None = None
    lease_until: datetime | None = None

    @property
    def path(self) -> str:
        return f"{self.group}/{self.name}/{self.system}"

    @property
    def address(self) -> str:
        return f"{namespace(self.group)}/{self.name}/{self.system}"

    @property
    def principal(self) -> Principal:
        """Who publishes the versions that are made of its tags."""
        return Principal("system", self.id, f"tags of {self.path}", self.organization_id)


class RegistryVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a published module. Only its withdrawal, and what is known of its tag, ever change."""

    id: str
    published_id: str
    version: str
    archive_id: str
    sha256: str
    size: int
    tag: str = ""
    commit_id: str = ""
    moved_to: str = ""
    withdrawn_at: datetime | None = None
    withdrawn_reason: str = ""
    created_by: str
    created_by_name: str
    created_at: datetime

    @property
    def is_withdrawn(self) -> bool:
        return self.withdrawn_at is not None

    @property
    def object(self) -> str:
        """The name of the object with its archive."""
        return f"archives/{self.archive_id}"


class PublishedUse(msgspec.Struct, frozen=True, kw_only=True):
    """A module whose jobs have fetched a version."""

    version_id: str
    module_id: str
    job_id: str
    """The last job that has fetched it."""
    first_at: datetime
    fetched_at: datetime


def namespace(group: str) -> str:
    """Return what engines call a group: they allow no slash, and no name in the tree has an underscore."""
    return group.replace("/", "_")


def group_of(text: str) -> str:
    """Return the path of the group with this namespace."""
    return text.replace("_", "/")


def check_group(group: str) -> None:
    """Raise Invalid if engines cannot write the name of this group."""
    if not group:
        raise Invalid.in_field("group", "the organization itself publishes no modules: give one of its groups")
    if not _NAMESPACE.fullmatch(namespace(group)):
        raise Invalid.in_field(
            "group",
            f"engines cannot write `{namespace(group)}`, the name of the group `{group}` in addresses: it must have at most 64 "
            "characters and end with a letter or a digit",
        )


def check_name(name: str, system: str) -> None:
    """Raise Invalid if engines cannot write this name of a module."""
    if not _NAME.fullmatch(name):
        raise Invalid.in_field(
            "name",
            f"{name!r} cannot be a name: use lowercase letters, digits, and hyphens and underscores between them",
        )
    if not _SYSTEM.fullmatch(system):
        raise Invalid.in_field("system", f"{system!r} cannot be a system: use lowercase letters and digits")


def parse_version(text: str) -> Version:
    """Return a version of three numbers. Raises Invalid for anything else."""
    found = version_ranges.parse_version(text) if _VERSION.fullmatch(text) else None
    if found is None:
        raise Invalid.in_field(
            "version", f"{text[:100]!r} is not a version to publish: write three numbers, such as 1.2.3 or 2.0.0-rc.1"
        )
    return found


def latest(versions: list[RegistryVersion]) -> str:
    """Return the highest version that is neither withdrawn nor a pre-release; '' if there is none."""
    known = [parse_version(each.version) for each in versions if not each.is_withdrawn]
    released = [each for each in known if not each.prerelease]
    return str(max(released, key=lambda version: version.order)) if released else ""
