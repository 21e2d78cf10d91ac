"""What the steps need to know of an engine, whichever it is."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import msgspec

from terracrew.attempt.engine_directory import EngineDirectory
from terracrew.executor.engines.tofu.plugins import Plugins
from terracrew.protocol.events import OutputsRead, PlanSummary
from terracrew.protocol.spec import Step


class EngineLocation(msgspec.Struct, frozen=True):
    """The directories and files in which one attempt runs its engine."""

    folder: Path
    """The folder with the module's root files, in the attempt's own copy of the source."""
    files: EngineDirectory
    """What the engine reads and writes beside the module's own files."""
    plugins: Plugins


class StateAccess(msgspec.Struct, frozen=True):
    """The loopback backend of this attempt."""

    url: str
    user: str
    secret: str


class Engine(Protocol):
    name: str
    version: str
    orderly_exit_codes: frozenset[int]
    """The exit codes of a mutating command that the engine itself uses when it has saved its state and ends."""

    def prepare(self, inputs: Mapping[str, object], *, has_our_backend: bool) -> None:
        """Write what the engine reads beside the source; refuse a source that cannot work with our backend."""
        ...

    def environment(self, base: Mapping[str, str], access: StateAccess | None) -> dict[str, str]: ...

    def arguments(self, step: Step, *, is_destroying: bool) -> list[str]:
        """Return the command of a step, the program first."""
        ...

    def summarize(self, state: bytes | None) -> PlanSummary:
        """Return what the plan that was just made would do."""
        ...

    def outputs(self, printed: bytes) -> OutputsRead:
        """Return the outputs, from what the command of the output step printed."""
        ...

    def is_ready(self) -> bool:
        """Return whether all that `init` fetched is still there, in a workspace that was put back."""
        ...

    @property
    def leftover(self) -> Path:
        """Where the engine leaves a state that it could not give to its backend."""
        ...

    def has_ended_in_order(self, code: int, printed: str) -> bool:
        """Return whether an engine that ended a mutating step like this has saved, or left, everything that it made."""
        ...

    def has_heard_interrupt(self, printed: str) -> bool:
        """Return whether the engine says that it is already stopping. A second interrupt would make it give up its state."""
        ...
