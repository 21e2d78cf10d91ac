"""The adapter of the engine `notes`. It has no `init` and no `validate`, and its states have a stack and a revision."""

import hashlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from terracrew_notes import program

from terracrew.errors import Invalid
from terracrew.executor.engines.contract import (
    ApiAccess,
    DownloadContext,
    Engine,
    EngineContext,
    EngineSession,
    FailureDetails,
    StateAccess,
    StateIdentity,
)
from terracrew.protocol.events import Output, OutputsRead, PlanSummary
from terracrew.protocol.spec import Step
from terracrew.toolchains.discovery import FoundEngine

_ERROR = re.compile(r"^notes: error: (.+)$", re.M)
_BROKEN_IDENTITY = "NOTES_BROKEN_IDENTITY"
"""A variable with which a test makes this engine fail in a way that its contract does not allow."""


class _State(msgspec.Struct):
    stack: str
    revision: int
    notes: dict[str, str]
    outputs: dict[str, str]


class _Plan(msgspec.Struct):
    create: dict[str, msgspec.Raw]
    delete: list[str]


class NotesSession(EngineSession):
    def __init__(self, found: FoundEngine, context: EngineContext) -> None:
        self._program, self._context = found.path, context

    @property
    def readable_paths(self) -> Sequence[Path]:
        return [Path(program.__file__).parent]

    @property
    def leftover(self) -> Path:
        return self._context.folder / program.LEFTOVER

    def prepare(self, inputs: Mapping[str, object], *, has_our_backend: bool) -> None:
        if inputs or not has_our_backend:
            raise Invalid("notes take no inputs, and their state is kept by Terracrew")

    def environment(self, base: Mapping[str, str], api: ApiAccess) -> dict[str, str]:
        return dict(base)

    def state_environment(self, base: Mapping[str, str], access: StateAccess) -> dict[str, str]:
        ours = {"NOTES_STATE": access.url, "NOTES_USER": access.user, "NOTES_PASSWORD": access.secret}
        return {**base, **ours}

    def arguments(self, step: Step, *, is_destroying: bool, flags: Sequence[str] = ()) -> list[str]:
        files = self._context.files
        match step:
            case Step.PLAN:
                options = ["plan", *(["--destroy"] if is_destroying else []), str(files.new_plan)]
            case Step.APPLY | Step.DESTROY:
                options = ["apply", str(files.plan)]
            case Step.OUTPUT:
                options = ["output"]
            case _:
                raise ValueError(f"{step} is not a command of notes")
        return [sys.executable, self._program, *options, *flags]

    def summarize(self, facts: bytes | None, state: bytes | None) -> PlanSummary:
        plan = msgspec.json.decode(self._context.files.plan.read_bytes(), type=_Plan)
        return PlanSummary(add=len(plan.create), destroy=len(plan.delete))

    def outputs(self, printed: bytes) -> OutputsRead:
        found = {name: Output(value) for name, value in msgspec.json.decode(printed, type=dict[str, str]).items()}
        return OutputsRead(found, hashlib.sha256(msgspec.json.encode(found)).hexdigest())

    def has_ended_in_order(self, code: int, printed: str) -> bool:
        return code in (0, 1, 130)

    def has_received_interrupt(self, printed: str) -> bool:
        return "notes: interrupted" in printed

    def failure_details(self, printed: str) -> FailureDetails:
        found = _ERROR.search(printed)
        return FailureDetails(found[1] if found else "")


class Notes(Engine):
    name = "notes"
    steps = frozenset(Step) - {Step.INIT, Step.VALIDATE}
    configuration_patterns: Sequence[str] = ("notes.json",)

    def find(self, paths: Sequence[str]) -> FoundEngine:
        return FoundEngine(self.name, program.__file__, "1.0")

    def find_all(self, paths: Sequence[str]) -> Sequence[FoundEngine]:
        return [self.find(paths)]

    def open(self, found: FoundEngine, context: EngineContext) -> NotesSession:
        return NotesSession(found, context)

    def identify_state(self, content: bytes) -> StateIdentity:
        if _BROKEN_IDENTITY in os.environ:
            raise KeyError("stack")
        state = _decoded(content)
        return StateIdentity(state.revision, state.stack, len(state.notes))

    def emptied_state(self, content: bytes) -> bytes:
        state = _decoded(content)
        return msgspec.json.encode(_State(state.stack, state.revision + 1, {}, {}))

    async def download(self, item: str, context: DownloadContext) -> bool:
        raise Invalid(f"notes download nothing, and certainly not {item!r}")


def _decoded(content: bytes) -> _State:
    try:
        return msgspec.json.decode(content, type=_State)
    except msgspec.DecodeError as error:
        raise Invalid(f"this is not a state of notes: {error}") from error


ENGINE = Notes()
