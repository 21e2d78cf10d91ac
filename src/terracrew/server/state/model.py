"""A state: what an engine wrote of a module, kept in versions, encrypted."""

import msgspec

from terracrew.protocol.events import StateFact

MAX_INLINE_BYTES = 1 << 20
"""A state up to this size is stored in its row."""


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
