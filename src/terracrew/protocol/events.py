"""Events of an attempt: numbered records with the same layout in the executor's outbox, on the wire and in the log store.

A record is a header of sixteen bytes (payload size, kind, stream, step, time) and its payload. Only the number of the
first record of a batch is sent; the others follow from it. Log records hold text, facts hold the JSON of one `Fact`, and a
state holds the JSON of its `StateFact`, a newline and the ciphertext, unless that was so large that it was sent by HTTP.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, cast

import msgspec

from terracrew.protocol.spec import STEP_OF_NUMBER, Step

HEADER = struct.Struct(">IBBHd")
MAX_TEXT_BYTES = 64 << 10
MAX_RECORD_BYTES = 4 << 20
MAX_BATCH_BYTES = 512 << 10
"""A batch is closed when it reaches this size. A single record may be larger, up to MAX_RECORD_BYTES."""
MAX_INLINE_STATE_BYTES = 2 << 20
MAX_STATE_BYTES = 256 << 20
"""The server accepts no larger state, and an executor does not read one."""
MAX_INLINE_OUTPUTS_BYTES = 1 << 20
"""Larger outputs are sent by HTTP under the number of their event, like large states."""
MAX_OUTPUTS_BYTES = 8 << 20
"""Larger outputs are not stored, because the server reads them whole into memory."""
MAX_INLINE_DIFF_BYTES = 256 << 10
"""A larger diff or JSON of a plan is sent by HTTP under the number of its event, like a large state."""
MAX_DIFF_BYTES = 16 << 20
"""A larger diff or JSON of a plan is not stored, because the server reads it whole into memory."""
MAX_BATCH_RECORDS = MAX_BATCH_BYTES // HEADER.size
"""The most records that fit into one batch, if none has a payload."""
MAX_OUTPUT_LEVELS = 100
"""The deepest nesting of lists and objects in an output, so that decoding it never runs out of stack."""
_MAX_TIME_SECONDS = 253_402_300_800.0
"""The year 10,000, which `datetime` cannot represent."""


Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
"""An integer that every database can store."""
Digest: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-z]{0,128}\Z")]
Line: TypeAlias = Annotated[str, msgspec.Meta(pattern=r"^[^\x00]{0,4096}\Z")]
NOT_IN_OWN_BACKEND = "the module's own backend did not accept it: push it there, and then discard it here"
"""The problem of a state that an engine left because the backend of its module, which is not Terracrew's, did not take it."""


class Kind(IntEnum):
    LOG = 1
    FACT = 2
    STATE = 3


class Stream(IntEnum):
    OUTPUT = 1
    """The engine's output: standard output and standard error in the order in which they arrived."""
    SYSTEM = 2
    """Terracrew's own lines in the log."""


class Record(NamedTuple):
    kind: int
    stream: int
    step: int
    time: float
    payload: bytes

    @property
    def step_name(self) -> Step:
        return STEP_OF_NUMBER[self.step]


class StepRetry(msgspec.Struct, frozen=True):
    """A step that failed is repeated, because its error may go away by itself."""

    number: Annotated[int, msgspec.Meta(ge=2, le=1000)]
    """The number of the next try: 2 for the first repetition."""
    tries: Annotated[int, msgspec.Meta(ge=2, le=1000)]
    """How many tries there are."""
    seconds: Annotated[float, msgspec.Meta(ge=0, le=86_400)]
    """After how many seconds the next try starts."""
    reason: str
    """The error of this try."""


class StepStatus(msgspec.Struct, frozen=True, tag="step"):
    step: Step
    status: Literal["RUNNING", "SUCCEEDED", "FAILED", "CANCELED", "SKIPPED"]
    exit_code: Annotated[int, msgspec.Meta(ge=-(1 << 31), lt=1 << 32)] | None = None
    is_cut_short: bool = False
    """Whether the engine was started and did not end by itself, so that no state may record its latest changes."""
    retry: StepRetry | None = None
    """Set if the step failed and is repeated."""
    kept_from: Count | None = None
    """The number of the earlier job of the module whose result of this step is used again, instead of running the step."""


class SourceResolved(msgspec.Struct, frozen=True, tag="source"):
    """What was fetched."""

    digest: str
    description: str
    commit: str = ""
    """The commit, if the source is a repository."""
    revision: str = ""
    """What led to this content, in words: `tag v1.2.0`, `branch main`. It is '' for a source without revisions."""
    moved_from: str = ""
    """The commit that the same tag meant to an earlier job of the module, if it has moved since."""


class ResourceChange(msgspec.Struct, frozen=True):
    address: str
    action: Literal["create", "update", "delete", "replace", "read", "import", "move", "forget"]
    detail: str = ""


class FailedCheck(msgspec.Struct, frozen=True):
    """A check that failed and does not keep the plan from being applied, such as a `check` block."""

    address: str
    message: str = ""


class PlanSummary(msgspec.Struct, frozen=True, tag="plan"):
    add: Count = 0
    change: Count = 0
    destroy: Count = 0
    replace: Count = 0
    imports: Count = 0
    """Resources that the engine starts to manage. One that is also changed counts as both; the same applies to moves."""
    moves: Count = 0
    forgets: Count = 0
    """Resources that continue to exist but are no longer managed."""
    unchanged: Count | None = None
    existing: Count | None = None
    """The number of resources before the change, or None if that is not known: the module has a backend of its own, and its engine
    looked at none of them."""
    resources: list[ResourceChange] = []
    outputs: dict[str, str] = {}
    """Output name → create, update or delete."""
    checks: list[FailedCheck] = []
    """The first of the checks that failed."""


class Output(msgspec.Struct, frozen=True):
    value: Any
    type: Any = None
    is_sensitive: bool = False


class OutputsRead(msgspec.Struct, frozen=True, tag="outputs"):
    outputs: dict[str, Output]
    sha256: Digest
    is_inline: bool = True
    """False if they were too large. Then `outputs` is empty, and `sha256` is the hash of their JSON, which came by HTTP."""


class PlanDescribed(msgspec.Struct, frozen=True, tag="diff"):
    """The diff of the plan that `PlanSummary` summarizes (`plan_diff/document.py`), without sensitive values."""

    sha256: Digest
    content: bytes = b""
    """The document; empty if it was too large. Then `sha256` is the hash of the document, which came by HTTP."""


class PlanShown(msgspec.Struct, frozen=True, tag="plan_json"):
    """The JSON of a plan whose job has `JobSpec.needs_plan_json` or `has_policies` (`plan_diff/plan_json.py`), without sensitive
    values."""

    sha256: Digest
    content: bytes = b""
    """The document; empty if it was too large. Then `sha256` is the hash of the document, which came by HTTP."""
    plan_sha256: Digest = ""
    """The hash of the plan itself: the server checks exactly the plan that is going to be applied."""


Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1e15)]


class ResourceCost(msgspec.Struct, frozen=True):
    """The monthly cost of one resource."""

    address: Line
    monthly_before: Amount = 0.0
    monthly_after: Amount = 0.0


class PlanCost(msgspec.Struct, frozen=True, tag="cost"):
    """What a hook after the plan has said of the monthly cost before and after the plan is applied."""

    monthly_before: Amount
    monthly_after: Amount
    currency: Annotated[str, msgspec.Meta(pattern=r"^[A-Z]{3}\Z")]
    resources: Annotated[list[ResourceCost], msgspec.Meta(max_length=1000)] = []


class EngineUsed(msgspec.Struct, frozen=True, tag="engine"):
    name: str
    version: str


class OutputMissing(msgspec.Struct, frozen=True, tag="output_missing"):
    """The machine crashed, so the end of what the engine printed may not have reached the disk."""


class KeptPlan(msgspec.Struct, frozen=True):
    """A plan and its workspace, which were stored (`PUT …/plan`) before this fact was recorded."""

    state_version: Count
    """The version of the state that the plan was made from."""
    sha256: Digest
    """The hash of the stored ciphertext."""
    size: Count
    path: Line
    """The path of the workspace, where it must be restored."""
    plan_sha256: Digest = ""
    """The hash of the plan itself, as it was described: only a plan with this hash is the one that a person approves."""


FailureKind = Literal[
    "", "time_limit", "out_of_memory", "process_limit", "disk_full", "state_locked", "hook", "state_moved"
]
"""Why a job failed, if it has a name: it lacked time, memory, processes or disk space, another run holds the lock of its state, a hook
refused a step, or the state moved each time that it was planned."""


class Result(msgspec.Struct, frozen=True, tag="result"):
    """The last event of an attempt that ended by itself. WAITING means that its plan was saved and waits for approval.

    A PLAN job that has SUCCEEDED may have kept its plan, too: another job can apply it.
    """

    status: Literal["SUCCEEDED", "FAILED", "CANCELED", "WAITING"]
    message: str = ""
    is_lock_free: bool = True
    kept: KeptPlan | None = None
    failure_kind: Annotated[str, msgspec.Meta(pattern="^[a-z_]{0,40}\\Z")] = ""
    """A `FailureKind`, or one that only newer executors know."""


Fact = (
    StepStatus
    | SourceResolved
    | PlanSummary
    | PlanDescribed
    | PlanShown
    | PlanCost
    | OutputsRead
    | EngineUsed
    | OutputMissing
    | Result
)


class StateFact(msgspec.Struct, frozen=True):
    """A state that the engine wrote. `sha256` hashes the plain text; `is_inline` tells whether the ciphertext follows."""

    sha256: Digest
    size: Count
    serial: Count
    lineage: Line
    is_inline: bool
    origin: Literal["engine", "errored"] = "engine"
    resources: Count | None = None
    """The number of resource instances in it, or None if the executor could not count them."""
    problem: Line = ""
    """Why it cannot become the current state: it cannot be read, and then its serial and lineage mean nothing, or no engine would
    read it here (`NOT_IN_OWN_BACKEND`). It is stored unchanged in quarantine."""


_fact = msgspec.json.Decoder(Fact)
_state = msgspec.json.Decoder(StateFact)
_encode = msgspec.json.Encoder().encode


def pack(kind: Kind, stream: int, step: Step, time: float, payload: bytes) -> bytes:
    return HEADER.pack(len(payload), kind, stream, step.number, time) + payload


def pack_fact(fact: Fact, step: Step, time: float) -> bytes:
    return pack(Kind.FACT, Stream.SYSTEM, step, time, _encode(fact))


def pack_state(fact: StateFact, ciphertext: bytes, step: Step, time: float) -> bytes:
    return pack(Kind.STATE, Stream.SYSTEM, step, time, _encode(fact) + b"\n" + (ciphertext if fact.is_inline else b""))


def unpack(body: bytes | memoryview) -> Iterator[Record]:
    """Yield the records of a batch. A malformed one raises ValueError."""
    view, offset, end = memoryview(body), 0, len(body)
    while offset < end:
        if end - offset < HEADER.size:
            raise ValueError("a record's header is cut off")
        size, kind, stream, step, time = HEADER.unpack_from(view, offset)
        offset += HEADER.size
        if size > MAX_RECORD_BYTES or offset + size > end or step not in STEP_OF_NUMBER or kind not in (1, 2, 3):
            raise ValueError("a record is malformed")
        if not 0 <= time < _MAX_TIME_SECONDS:
            raise ValueError("a record has a time that is out of range")
        yield Record(kind, stream, step, time, bytes(view[offset : offset + size]))
        offset += size


def fact_of(record: Record) -> Fact:
    """Return the fact that the record holds. Anything else raises ValueError."""
    try:
        return _fact.decode(record.payload)
    except RecursionError:
        raise ValueError("a fact is nested too deep") from None


def is_deep(fact: OutputsRead) -> bool:
    """Return whether an output is nested so deep that it could be stored but not read back."""
    level: list[Any] = [output.value for output in fact.outputs.values()]
    for _ in range(MAX_OUTPUT_LEVELS):
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
