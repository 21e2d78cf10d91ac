"""What an executor of the stateful test writes: the events of its outbox, its states, and how its engine ends."""

import hashlib
import os
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.protocol import events
from terracrew.protocol.events import Kind, Output, OutputsRead, PlanSummary, Result, StateFact, Stream
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import MUTATING, STEPS_OF, Step
from tests.stateful.link import Link

if TYPE_CHECKING:
    from tests.stateful.simulated_runners import Host, SimulatedRunners


class Plain(msgspec.Struct):
    """What the simulated engine writes as its state."""

    serial: int
    lineage: str
    by: str


def facts(outbox: list[bytes]) -> list[tuple[int, Any]]:
    """Number and record of each event."""
    return [(number, next(events.unpack(packed))) for number, packed in enumerate(outbox, 1)]


class SimulatedOutbox:
    """What is known of an attempt, and what its executor and engine have written."""

    def __init__(self, crew: "SimulatedRunners", host: "Host", granted: Granted) -> None:
        self.crew, self.host, self.spec, self.credentials = crew, host, granted.spec, granted.credentials
        self.ref = AttemptRef(granted.spec.job_id, granted.spec.attempt)
        self.name = f"{granted.spec.number}.{granted.spec.attempt}"
        self.process: Literal["none", "alive", "dead"] = "none"
        self.is_mutating = False
        """Its engine is between the start and the end of a mutating step: the witness."""
        self.has_unsaved = False
        """Its engine made something since the last state that it saved."""
        self.has_mutated = self.is_planned = self.is_over = self.is_superseded = False
        self.is_refused = False
        """The server accepts nothing more from it."""
        self.cancel: str | None = None
        self._turns = 0
        self.is_slow = (granted.spec.number + granted.spec.attempt) % 2 == 0
        """Its engine takes long: others may come and go meanwhile."""
        self.permit_asked_at: float | None = None
        """When the question was sent that a permit was the answer to."""
        self.outbox: list[bytes] = []
        self.last_state, self.result = 0, 0
        """The numbers of the last event that is a state, and of the result; 0 where there is none."""
        self.late: dict[int, tuple[str, bytes]] = {}
        """States that are too large for their event, and are not uploaded yet: number, object and content."""
        self.acked = 0
        self.link: Link | None = None
        self.resume = granted.spec.resume
        self._plan_from(granted.spec.state.version, granted.spec.state.content)
        if self.resume is not None:
            self.is_planned, self.version = True, self.resume.state_version

    @property
    def may_mutate(self) -> bool:
        return bool(MUTATING & set(STEPS_OF[self.spec.type]))

    @property
    def plan(self) -> tuple[str, int]:
        """Which plan it would apply: its own, or the kept one that it goes on with."""
        return (
            (self.resume.made_job_id, self.resume.made_attempt) if self.resume else (self.ref.job_id, self.ref.attempt)
        )

    @property
    def is_delivered(self) -> bool:
        return self.acked == len(self.outbox)

    def _plan_from(self, version: int, content: bytes | None) -> None:
        found = msgspec.json.decode(content, type=Plain) if content else Plain(0, f"lineage of {self.name}", "")
        self.version, self.serial, self.lineage = version, found.serial, found.lineage

    def emit(self, fact: events.Fact, step: Step = Step.PLAN) -> None:
        self.outbox.append(events.pack_fact(fact, step, self.crew.site.clock.now))
        if isinstance(fact, Result):
            self.result = len(self.outbox)

    def log(self) -> None:
        text = f"{self.name} line {len(self.outbox) + 1}\n"
        self.outbox.append(events.pack(Kind.LOG, Stream.OUTPUT, Step.PLAN, self.crew.site.clock.now, text.encode()))

    def work(self) -> str:
        """Towards its plan."""
        if not self.outbox:
            self.emit(events.StepStatus(Step.INIT, "RUNNING"))
            self.log()
            self.emit(events.SourceResolved(self.name, "a source"))
            self.emit(events.EngineUsed("tofu", self.name))
            return "prepared"
        self.log()
        self.emit(PlanSummary(add=1, outputs={"by": self.name}))
        self.is_planned = True
        return "planned"

    def plan_again(self, version: int, content: bytes | None) -> None:
        self.resume, self.is_planned, self.permit_asked_at = None, False, None
        self._plan_from(version, content)

    def write(
        self, *, is_inline: bool = True, origin: Literal["engine", "errored"] = "engine", lineage: str = ""
    ) -> str:
        """The engine saves its state, perhaps with another lineage than the one that it started with."""
        self.serial += 1
        self.has_unsaved = False
        number = len(self.outbox) + 1
        lineage = lineage or self.lineage
        plain = msgspec.json.encode(Plain(self.serial, lineage, f"{self.name}#{number}"))
        sha256 = hashlib.sha256(plain).hexdigest()
        told = StateFact(sha256, len(plain), self.serial, lineage, is_inline, origin)
        nonce = os.urandom(12)
        context = f"{self.ref.job_id}:{self.ref.attempt}".encode()
        sealed = nonce + AESGCM(self.credentials.state_key).encrypt(nonce, plain, context)
        self.last_state = number
        self.outbox.append(events.pack_state(told, sealed, Step.APPLY, self.crew.site.clock.now))
        if not is_inline:
            self.late[number] = f"states/{self.ref.job_id}/{self.ref.attempt}/{number}_{sha256}", plain
        return f"wrote state {self.serial}"

    async def upload(self) -> str:
        """What was too large for its event comes by HTTP; the server keeps it under its own key."""
        for name, plain in self.late.values():
            await self.crew.site.objects.put(name, self.crew.seal(self.spec.module_id, name, plain))
        self.late.clear()
        return "uploaded"

    def finish(self, status: Literal["SUCCEEDED", "FAILED", "CANCELED"]) -> str:
        if status == "SUCCEEDED" and self.may_mutate:
            self.emit(OutputsRead({"by": Output(self.name)}, self.name.replace(".", "x")), Step.OUTPUT)
        self.emit(Result(status, f"said by {self.name}"))
        self.is_over = True
        return f"ended {status}"

    def end_engine(self, *, is_ok: bool) -> str:
        """The engine saves what it made and ends by itself."""
        self.is_mutating = False
        if self.process == "dead":
            return self.write(origin="errored")  # it had nobody to give it to
        if self.has_unsaved:
            self.write()
        self._end_step(is_ok=is_ok, is_cut_short=False)
        return self.finish("SUCCEEDED" if is_ok else "FAILED")

    def kill_engine(self, status: Literal["FAILED", "CANCELED"]) -> str:
        """The engine is killed while its executor lives: what it made since its last save is in no state."""
        self.is_mutating = False
        self._end_step(is_ok=False, is_cut_short=True)
        return self.finish(status)

    def be_evicted(self) -> str:
        """The host asks the executor to end, which nobody has asked the server for. Its engine ends in order."""
        if self.is_mutating:
            self.is_mutating = False
            if self.has_unsaved:
                self.write()
            self._end_step(is_ok=False, is_cut_short=False)
        return self.finish("CANCELED")

    def _end_step(self, *, is_ok: bool, is_cut_short: bool) -> None:
        step = next(step for step in STEPS_OF[self.spec.type] if step in MUTATING)
        self.emit(events.StepStatus(step, "SUCCEEDED" if is_ok else "FAILED", is_cut_short=is_cut_short), step)
