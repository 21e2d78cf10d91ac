"""A state: what an engine wrote of a module, kept in versions, encrypted."""

from datetime import datetime
from typing import Literal

import msgspec

from terracrew.protocol.events import StateFact

MAX_INLINE_BYTES = 1 << 20
"""A state up to this size is stored in its row."""


class State(msgspec.Struct, frozen=True):
    id: str
    module_id: str
    status: Literal["current", "superseded", "quarantined", "discarded"]
    job_id: str
    """The job that wrote it. No job wrote a state that a person brought: this is its own id then."""
    attempt: int
    event: int
    origin: Literal["engine", "errored", "imported", "restored"]
    """Whether the engine wrote it in the ordinary way or left it in a file, or a person imported it or restored an older version."""
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
    """The id of the person or service account that imported or restored it; empty if a job wrote it."""


class LargeOutputs(msgspec.Struct, frozen=True):
    """Outputs, or the diff of a plan, that were too large for their event and came by HTTP."""

    object: str
    problem: str = ""
    """Why they cannot be kept."""


class Received(msgspec.Struct, frozen=True):
    """A state as it came from an executor, encrypted under the master key: in its row, or already in the object store."""

    fact: StateFact
    content: bytes | None
    object: str | None
    problem: str = ""
