"""Events of an attempt: numbered records, laid out the same in the executor's outbox, on the wire and in the log store.

A record is a header of sixteen bytes (payload size, kind, stream, step, time) and its payload. Its number is not written: the first number
of a batch is, and the rest follow. Log records hold text; facts hold the JSON of one `Fact`; a state holds the JSON of its
`StateFact`, a newline and the ciphertext, unless that was too large and went by HTTP.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from terracrew.protocol.spec import STEPS, Step

HEADER = struct.Struct(">IBBHd")
MAX_TEXT = 64 << 10
MAX_RECORD = 4 << 20
MAX_BATCH_BYTES = 512 << 10
"""A batch closes when it reaches this; one record alone may be larger, up to MAX_RECORD."""
INLINE_STATE = 2 << 20
MAX_STATE = 256 << 20
"""The largest state that the server accepts; an executor does not read a larger one."""
INLINE_OUTPUTS_BYTES = 1 << 20
"""Outputs that are larger go by HTTP, like large states, under the number of their event."""
MAX_OUTPUTS_BYTES = 8 << 20
"""Larger outputs are not kept: the server reads them whole when it takes them in and when somebody asks for them."""
MOST_RECORDS = MAX_BATCH_BYTES // HEADER.size
"""In one batch: all of them without a payload."""
DEEPEST = 100
"""Levels of lists and objects in an output: what is read back deep in a call must not run out of stack there."""
_END_OF_TIME = 253_402_300_800.0
"""The year 10,000, which no calendar of ours has."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""What every database can hold."""
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z]{0,128}\Z")]
Line: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]{0,4096}\Z")]


class Kind(IntEnum):
    LOG = 1
    FACT = 2
    STATE = 3


class Stream(IntEnum):
    OUTPUT = 1
    """What the engine printed; standard output and standard error in the order in which they came."""
    SYSTEM = 2
    """What Terracrew itself has to say in the log."""


class Record(NamedTuple):
    kind: int
    stream: int
    step: int
    time: float
    payload: bytes

    @property
    def step_name(self) -> Step:
        return STEPS[self.step]


class StepStatus(msgspec.Struct, frozen=True, tag="step"):
    step: Step
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"]
    exit_code: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 32)] | None = None
    is_cut_short: bool | None = None
    """Whether the engine was started and did not end in order: what it made since its last state may be in no state.

    None comes from an executor that does not know this field.
    """


class SourceResolved(msgspec.Struct, frozen=True, tag="source"):
    digest: str
    description: str


class ResourceChange(msgspec.Struct, frozen=True):
    address: str
    action: Literal["create", "update", "delete", "replace", "read", "import", "move", "forget"]
    detail: str = ""


class PlanSummary(msgspec.Struct, frozen=True, tag="plan"):
    add: Count = 0
    change: Count = 0
    destroy: Count = 0
    replace: Count = 0
    imports: Count = 0
    """Resources that come under the engine's management; one that is also changed counts as both. So with moves."""
    moves: Count = 0
    forgets: Count = 0
    """Resources that go on to exist and are no longer managed."""
    unchanged: Count | None = None
    existing: Count | None = None
    """How many resources there are before it; None comes from an executor that did not count them."""
    resources: list[ResourceChange] = []
    outputs: dict[str, str] = {}
    """Output name → create, update or delete."""


class Output(msgspec.Struct, frozen=True):
    value: Any
    type: Any = None
    is_sensitive: bool = False


class OutputsRead(msgspec.Struct, frozen=True, tag="outputs"):
    outputs: dict[str, Output]
    sha256: Digest
    is_inline: bool = True
    """False where they were too large: then `outputs` is empty, and `sha256` is that of their JSON, which came by HTTP."""


class EngineUsed(msgspec.Struct, frozen=True, tag="engine"):
    name: str
    version: str


class KeptPlan(msgspec.Struct, frozen=True):
    """A plan and its workspace, which were stored (`PUT …/plan`) before this was said of them."""

    state_version: Count
    """The state that it was made from."""
    sha256: Digest
    """Of what is stored: the ciphertext."""
    size: Count
    path: Line
    """Where the workspace was, and has to be again."""


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The last event of an attempt that ended by itself. WAITING: a person has to look at its plan, which was kept."""

    status: Literal["SUCCEEDED", "FAILED", "CANCELED", "WAITING"]
    message: str = ""
    is_lock_free: bool = True
    kept: KeptPlan | None = None


Fact = StepStatus | SourceResolved | PlanSummary | OutputsRead | EngineUsed | Result


class StateFact(msgspec.Struct, frozen=True):
    """A state that the engine wrote. `sha256` is that of the plain text; `is_inline` tells whether the ciphertext follows."""

    sha256: Digest
    size: Count
    serial: Count
    lineage: Line
    is_inline: bool
    origin: Literal["engine", "errored"] = "engine"
    resources: Count | None = None
    """How many resource instances it holds, where the executor could read that."""
    problem: Line = ""
    """Why it cannot be read as a state. It is kept as it is, in quarantine, and its serial and lineage mean nothing."""


_fact = msgspec.json.Decoder(Fact)
_state = msgspec.json.Decoder(StateFact)
_encode = msgspec.json.Encoder().encode


def pack(kind: Kind, stream: int, step: Step, time: float, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind, stream, STEPS.index(step), time) + payload


def pack_fact(fact: Fact, step: Step, time: float) -> bytes:
    return pack(Kind.FACT, Stream.SYSTEM, step, time, _encode(fact))


def pack_state(fact: StateFact, ciphertext: bytes, step: Step, time: float) -> bytes:
    return pack(Kind.STATE, Stream.SYSTEM, step, time, _encode(fact) + b"\n" + (ciphertext if fact.is_inline else b""))


def unpack(body: bytes | memoryview) -> Iterator[Record]:
    """Walk the records of a batch; a malformed one is a ValueError."""
    view, offset, end = memoryview(body), 0, len(body)
    while offset < end:
        if end - offset < HEADER.size:
            raise ValueError("a record's header is cut off")
        size, kind, stream, step, time = HEADER.unpack_from(view, offset)
        offset += HEADER.size
        if size > MAX_RECORD or offset + size > end or step >= len(STEPS) or kind not in (1, 2, 3):
            raise ValueError("a record is malformed")
        if not 0 <= time < _END_OF_TIME:
            raise ValueError("a record's time is none")
        yield Record(kind, stream, step, time, bytes(view[offset : offset + size]))
        offset += size


def fact_of(record: Record) -> Fact:
    """What the record says; anything that is no fact is a ValueError."""
    try:
        return _fact.decode(record.payload)
    except RecursionError:
        raise ValueError("a fact is nested too deep") from None


def is_deep(fact: OutputsRead) -> bool:
    """Whether an output could be stored and not be read back."""
    level: list[Any] = [output.value for output in fact.outputs.values()]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                below += cast("dict[str, Any]", each).values()
            elif isinstance(each, list):
                below += cast("list[Any]", each)
        level = below
    return bool(level)


def state_of(record: Record) -> tuple[StateFact, bytes]:
    head, _, ciphertext = record.payload.partition(b"\n")
    try:
        return _state.decode(head), ciphertext
    except RecursionError:
        raise ValueError("the fact of a state is nested too deep") from None
