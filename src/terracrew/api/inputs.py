"""Inputs: the values that jobs are given, the outputs that they use, and what a job was given."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec

from terracrew.protocol.spec import Definition

Target = Literal["variable", "environment", "file"]
"""What becomes of an input: a variable of the engine's configuration, an environment variable, or an extra file beside the
source, whose path is the name."""


class Dependency(msgspec.Struct, frozen=True, kw_only=True):
    """An output of one module that is an input of another. `module_id` and `path` name the module at the other end."""

    id: str
    module_id: str | None
    """Null if it was deleted, or if you may not see it."""
    path: str | None
    is_deleted: bool = False
    """Whether the module at the other end was deleted. Jobs fail until the input is set again."""
    output: str
    """The name of the output."""
    target: Target
    name: str
    """The name of the input that it is."""
    is_waited_for: bool
    """Whether the outputs of the module are not known: it was not applied yet, was destroyed since, or the outputs of its last change
    could not be kept. Jobs that need it wait."""
    is_outdated: bool = False
    """Whether they wait because the module has only the outputs of an older job. It has to be applied again."""
    triggers: Literal["auto", "manual"] | None = None
    """Whether the module that uses the output is applied by itself when it changes; null in the list of needed modules."""
    set_by_name: str
    """Who set the input. The output is given as long as they may read the state of the module that has it."""
    set_at: datetime
    is_ended: bool = False
    """Whether the output is not given any more: an owner of its module has ended the reference, or who set the input may not read the
    state of that module any more. Jobs that need it wait until somebody who may sets the input again."""
    ended_by_name: str | None = None
    """The owner who has ended it; null if nobody has."""


Kind = Literal["literal", "secret", "output", "definition"]
"""Where the value comes from: it was given as it is, it is a secret, which nobody can read back, it is an output of another
module, or it says something about the job."""
PlaceKind = Literal["organization", "group", "module"]
SecretText = Annotated[str, msgspec.Meta(max_length=65_536)]


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


class NewInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
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


class JobInput(UsedInput, frozen=True, kw_only=True, omit_defaults=False):
    """An input that an attempt was given, without its value."""

    is_current: bool
    """Whether the same version still applies to the module. What the job itself was given always does."""


class JobInputs(msgspec.Struct, frozen=True):
    attempt: int | None
    """The attempt that was given these; null if none has been given any."""
    items: list[JobInput]
