"""States that engines wrote, with their resources and outputs."""

from datetime import datetime
from typing import Any, Literal

import msgspec

from terracrew.plan_diff.model import AttributeDiff, ResourceDiff


class State(msgspec.Struct, frozen=True):
    id: str
    module_id: str
    status: Literal["current", "superseded", "quarantined", "discarded"]
    job_id: str
    """The job that wrote it. No job wrote a state that a person brought: this is its own id then."""
    attempt: int
    event: int
    origin: Literal["engine", "errored", "imported", "restored", "terminal"]
    """Whether the engine of a job wrote it in the ordinary way or left it in a file, or a person imported it, restored an older version,
    or wrote it with an engine at a terminal, under the lock of the module."""
    serial: int
    lineage: str
    sha256: str
    size: int
    created_at: datetime
    version: int | None = None
    problem: str = ""
    """Why it cannot be adopted: it cannot be read, or the module's own backend did not accept it. Such a state is kept as it came;
    it can be downloaded and discarded."""
    brought_by: str = ""
    """The id of the person or service account that imported, restored or wrote it; empty if a job wrote it."""


class Resources(msgspec.Struct, frozen=True):
    """What a module manages, as far as its current state tells."""

    version: int = 0
    """The version of the state; 0 if there is none."""
    count: int | None = 0
    """How many resources; None where that is not known, because the state is kept elsewhere or is too large to be read."""
    addresses: list[str] = []
    """The first 20 of them."""
    problem: str = ""
    """Why the state cannot be read, if it cannot be decrypted: its resources are then not named."""


class ModuleOutput(msgspec.Struct, frozen=True):
    value: Any
    """None if it is sensitive and was not requested."""
    type: Any
    sensitive: bool


class JobOutputs(msgspec.Struct, frozen=True):
    job_id: str | None = None
    """The job that read them."""
    created_at: datetime | None = None
    checksum: str | None = None
    """The same for equal outputs of a module, sensitive ones included; null if none were read. It is not a hash of the values alone,
    so nobody can compare it with those of guessed ones."""
    outputs: dict[str, ModuleOutput] = {}


class ModuleOutputs(JobOutputs, frozen=True):
    outdated_since: datetime | None = None
    """When a later job began to change the module, if the outputs of that job are not known (yet), or when a person wrote or brought the
    state of the module."""
    outdated_by: str | None = None
    """That job; null if it was a person."""


class StateDiff(msgspec.Struct, frozen=True):
    """What differs between two states of a module."""

    before: State
    after: State
    counts: dict[str, int]
    """`create`, `update` or `delete` → number of resources that were added, changed or removed."""
    left_out: list[str]
    """Says in sentences what the comparison does not contain, and why."""
    outputs: list[AttributeDiff]
    total: int
    items: list[ResourceDiff]
    next: str | None = None
