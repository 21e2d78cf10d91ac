"""An input: a value that the jobs of a module are given. It is set at the module or at a group above it, and has versions."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.api.inputs import Kind, PlaceKind, Target


class Input(msgspec.Struct, frozen=True):
    """One version of an input at one place."""

    id: str
    place_id: str
    """The group or module that it is set at; the organization is its root group."""
    target: Target
    name: str
    version: int
    kind: Kind
    sealed: bytes | None
    """The encrypted value. None if this version stands for the removal of the input."""
    size: int
    """How many bytes its value has."""
    is_current: bool
    set_by: str
    set_by_name: str
    set_at: datetime
    source_module_id: str | None = None
    """The module whose output it is."""
    source_output: str | None = None
    ended_by_name: str | None = None
    """The owner of the source module who has ended the reference to its output; None if nobody has."""

    def __repr__(self) -> str:
        return f"Input({self.place_id}, {self.target}, {self.name!r}, {self.version})"


class FileContent(msgspec.Struct, frozen=True):
    """The value of an extra file."""

    content: str
    overwrite: bool = False

    def __repr__(self) -> str:
        return "FileContent(…)"


class InputPlace(msgspec.Struct, frozen=True):
    """A place at which inputs or steps are set, which was found and locked by the caller."""

    id: str
    organization_id: str
    kind: PlaceKind
    path: str

    @property
    def noun(self) -> Literal["group", "module"]:
        return "module" if self.kind == "module" else "group"

    @property
    def words(self) -> str:
        return "the organization" if self.kind == "organization" else f"{self.kind} `{self.path}`"


class PlacedInput(Input, frozen=True, kw_only=True):
    """An input with the path of its place, and how far that is from the place in question."""

    path: str
    level: int
    """0 for the place itself, 1 for the group that it is in, and so on."""
    source_path: str | None = None
    """The path of the module whose output it is; None if that was deleted."""


class SourceModule(msgspec.Struct, frozen=True):
    """A module whose output an input is, which was found by the caller."""

    id: str
    path: str
