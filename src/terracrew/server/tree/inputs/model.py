"""An input: a value that the jobs of a module are given. It is set at the module or at a group above it, and has versions."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from terracrew.protocol.spec import Definition

Target = Literal["variable", "environment", "file"]
"""What becomes of an input: a variable of the engine's configuration, an environment variable, or an extra file beside the
source, whose path is the name."""
Kind = Literal["literal", "secret", "output", "definition"]
"""Where the value comes from: it was given as it is, it is a secret, which nobody can read back, it is an output of another
module, or it says something about the job."""
PlaceKind = Literal["organization", "group", "module"]
SecretText = Annotated[str, msgspec.Meta(max_length=65_536)]


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
    """A place at which inputs are set, which was found and locked by the caller."""

    id: str
    organization_id: str
    kind: PlaceKind
    path: str

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


class InputView(msgspec.Struct, frozen=True, kw_only=True):
    """An input as people see it. The value of a secret is never shown, nor is the content of a file."""

    target: Target
    name: str
    kind: Kind
    value: Any = None
    """The value; what looks like a secret is `***`. Null if `is_hidden`."""
    is_hidden: bool = False
    """Whether there is a value that is not shown."""
    place_kind: PlaceKind
    path: str
    """The path of the place where it is set; empty for the organization."""
    is_inherited: bool
    """Whether it is set at a place above the one that was asked for."""
    version: int
    """1 for the first value that was set there, 2 for the next, and so on."""
    set_by: str
    """The id of the user or service account."""
    set_by_name: str
    set_at: datetime
    overrides: str | None = None
    """The path of the next place above with an input of the same name, which does not apply here; null if there is none."""
    overwrite: bool = False
    """Whether a file may replace one of the source."""
    source_module: str | None = None
    """The path of the module whose output it is; null for other kinds, and if that module was deleted."""
    is_source_hidden: bool = False
    """Whether `source_module` is null because you may not see that module."""
    source_output: str | None = None
    """The name of that output."""
    definition: Definition | None = None
    """What it says about the job; null for other kinds."""
    problem: str = ""
    """Why its value cannot be used, so that no job can start with it; empty if it can."""
    warning: str = ""
    """What is not advisable about it: it is a static key of a cloud, which jobs do not need. Empty if nothing is."""


class OutputReference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An output of another module."""

    module: str
    """Its path or id."""
    output: Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class SourceModule(msgspec.Struct, frozen=True):
    """A module whose output an input is, which was found by the caller."""

    id: str
    path: str


class NewInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The input to set, with exactly one of `value`, `secret`, `output` and `definition`."""

    name: str
    place: str = ""
    """The path or id of a group or module; empty or `/` for the organization."""
    target: Target = "variable"
    value: Any = msgspec.UNSET
    """Any JSON value for a variable, a text for an environment variable or a file."""
    secret: SecretText | None = None
    """A text that nobody can read back. It needs the permission `secret.set`."""
    output: OutputReference | None = None
    """An output of another module, for a variable or an environment variable of a module. It needs the permission to read the
    state of the other module."""
    definition: Definition | None = None
    """Something about the job, for a variable or an environment variable: the path of its module, its number and so on."""
    overwrite: bool = False
    """Whether a file may replace one of the source. Otherwise a job whose source has such a file fails."""

    def __repr__(self) -> str:
        return f"NewInput({self.place!r}, {self.target}, {self.name!r})"


class UsedInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """An input that an attempt was given: where it came from, without its value."""

    target: Target
    name: str
    kind: Kind
    place_kind: PlaceKind | Literal["job"]
    path: str = ""
    id: str = ""
    """The id of the version; empty if the job itself was given it."""
    version: int = 0
    set_by: str = ""
    set_by_name: str = ""
    set_at: datetime | None = None
    source_module: str | None = None
    """The path of the module whose output it was."""
    source_output: str | None = None
    source_job_id: str | None = None
    """The job that had read this output."""
