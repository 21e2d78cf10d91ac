"""What an import is going to make: groups, modules with their inputs, steps and states, and what it leaves to a person."""

import shlex
from typing import Literal

import msgspec

from terracrew.api.inputs import NewInput, Target
from terracrew.api.modules import NewModule
from terracrew.api.steps import NewStepSettings
from terracrew.protocol.spec import Step

ImportedEngine = Literal["tofu", "terraform"]


class StateOrigin(msgspec.Struct, frozen=True):
    """Where the current state of a module is read from, and what is known of it before it is read."""

    reference: str
    """What the reader of the source needs to find it: the id of a workspace, or the path of a file."""
    serial: int
    lineage: str = ""
    """Empty where the source does not tell it before the state is read."""


class HandSetInput(msgspec.Struct, frozen=True):
    """An input whose value the source does not give out, so that a person has to set it."""

    place: str
    target: Target
    name: str

    @property
    def command(self) -> str:
        environment = " --env" if self.target == "environment" else ""
        return f"terracrew input set {shlex.quote(self.place or '/')} {shlex.quote(self.name)}{environment} --secret"


class ImportedModule(msgspec.Struct, frozen=True, kw_only=True):
    """A module that an import makes of one workspace, project or state."""

    origin: str
    """What the source calls it."""
    new: NewModule
    """Its settings. One of its labels says where it comes from, so that another import knows it again."""
    inputs: tuple[NewInput, ...] = ()
    steps: tuple[tuple[Step, NewStepSettings], ...] = ()
    state: StateOrigin | None = None
    by_hand: tuple[HandSetInput, ...] = ()
    remarks: tuple[str, ...] = ()
    """What cannot be taken over, and why."""
    problem: str = ""
    """Why nothing is made of it; empty if nothing is in the way."""
    archive: str = ""
    """The folder of this machine that is uploaded as its source when it is made; empty for every other source."""

    @property
    def path(self) -> str:
        return self.new.path


class ImportedGroup(msgspec.Struct, frozen=True):
    """A group that an import makes, or gives inputs to. The empty path is the organization."""

    path: str
    description: str = ""
    inputs: tuple[NewInput, ...] = ()
    by_hand: tuple[HandSetInput, ...] = ()
    remarks: tuple[str, ...] = ()


class ImportPlan(msgspec.Struct, frozen=True):
    """All that an import is going to make."""

    source: str
    """What is imported, in words."""
    groups: tuple[ImportedGroup, ...] = ()
    modules: tuple[ImportedModule, ...] = ()
    remarks: tuple[str, ...] = ()
    """What concerns all of it, or none of the modules."""
    next_steps: tuple[str, ...] = ()
