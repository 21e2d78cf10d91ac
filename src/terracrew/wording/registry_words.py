"""What people read of published modules in the same words on pages and terminals."""

from typing import Protocol

READERS = {"group": "the group and below", "organization": "the organization"}
"""For whom a published module is."""


class ShownVersion(Protocol):
    @property
    def is_withdrawn(self) -> bool: ...
    @property
    def withdrawn_reason(self) -> str: ...
    @property
    def moved_to(self) -> str: ...


def condition(version: ShownVersion) -> str:
    """Return what stands in the way of a version, or that it is published."""
    if version.is_withdrawn:
        return f"withdrawn: {version.withdrawn_reason}" if version.withdrawn_reason else "withdrawn"
    return "published, its tag was moved" if version.moved_to else "published"


class ShownUse(Protocol):
    @property
    def version(self) -> str: ...
    @property
    def is_withdrawn(self) -> bool: ...


def used_version(use: ShownUse) -> str:
    """Return the version that a module has fetched, and whether it is withdrawn by now."""
    return f"{use.version} (withdrawn)" if use.is_withdrawn else use.version


class ShownInput(Protocol):
    @property
    def default(self) -> str | None: ...


def default_of(found: ShownInput) -> str:
    """Return the default of an input in one line."""
    return "required" if found.default is None else " ".join(found.default.split())


def usage(host: str, address: str, version: str) -> str:
    """Return the block that uses a published module. A pre-release is named exactly, because engines choose it in no range."""
    name = address.split("/")[1]
    if "-" not in version:
        version = f"~> {version.rpartition('.')[0]}" if version else ">= 0.1.0"
    return f'module "{name}" {{\n  source  = "{host}/{address}"\n  version = "{version}"\n}}'
