"""A model of an executor and its engine: what it has emitted, what is acknowledged, and whether it is changing the world."""

import hashlib
import os
from typing import TYPE_CHECKING, Literal

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from terracrew.protocol import events, frames, messages, version
from terracrew.protocol.events import KeptPlan, Kind, Output, OutputsRead, PlanSummary, Result, StateFact, Stream
from terracrew.protocol.messages import AttemptRef, Granted
from terracrew.protocol.spec import MUTATING, STEPS_OF, Step
from terracrew.server.jobs.plans import store as plan_store
from tests.stateful.link import KILLED, Link
from tests.stateful.outbox import Plain

if TYPE_CHECKING:
    from tests.stateful.simulated_runners import Host, SimulatedRunners

LEAVE_SECONDS = 5.0
Mode = Literal["next", "again", "reordered", "gap", "cut", "lost"]
Question = Literal["right", "old", "new", "foreign", "lost"]


class Executor:
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
        self.leave: float | None = None
        """When the question was sent that leave was given for."""
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
        return self.ref.job_id, self.resume.attempt if self.resume else self.ref.attempt

    @property
    def is_delivered(self) -> bool:
        return self.acked == len(self.outbox)

    def _plan_from(self, version: int, content: bytes | None) -> None:
        found = msgspec.json.decode(content, type=Plain) if content else Plain(0, f"lineage of {self.name}", "")
        self.version, self.serial, self.lineage = version, found.serial, found.lineage

    @property
    def takes_its_time(self) -> bool:
        """While it changes the world, once it has said that it lives."""
        return self.is_slow and self.is_mutating and (self.host.is_cut_off or self.link is not None)

    @property
    def has_to_wait(self) -> bool:
        """For the network, for whoever would clear it away, or for nothing any more."""
        if self.is_mutating or self.process == "none":
            return False
        if self.process == "dead":
            return not self.host.is_connected or self.ref not in self.host.journal
        return self.host.is_cut_off and (self.leave is None or self.has_mutated or self.is_over)

    # ---- what it does by itself

    async def go_on(self) -> str:
        """Do what comes next of itself; tells what that was."""
        self._listen()
        if self.process == "none":
            self.process = "alive"
            return "started"
        if self.process == "dead":
            return await self._be_cleared_away()
        if self.host.is_cut_off:
            return await self._go_on_alone()
        if self.link is None or not self.link.is_open:
            return await self.connect()
        if not self.outbox:
            return self.work()
        if self.is_refused:
            self.is_over = self.is_over or not self.is_mutating  # what is left is never accepted
        elif not self.is_delivered and (self.is_over or len(self.outbox) - self.acked > 2):
            return await self.deliver("next", 8)
        if self.is_over:
            await self.stop()
            return "exited"
        return await self._run()

    async def _run(self) -> str:
        is_stopping = self.is_superseded or self.cancel is not None
        if self.is_mutating:
            return self._change()
        if is_stopping or (self.is_planned and not self.may_mutate) or self.has_mutated:
            return self.finish("CANCELED" if is_stopping and not self.has_mutated else "SUCCEEDED")
        if not self.is_planned:
            return self.work()
        if self.leave is None or self.crew.site.clock.now - self.leave >= LEAVE_SECONDS:
            return await self.ask("right")
        return await self.start_engine()

    async def _go_on_alone(self) -> str:
        """Without the server: an engine that runs goes on, and leave that was given is good for its five seconds."""
        if self.is_mutating:
            return self._change()
        if self.leave is None or self.has_mutated or self.is_over or self.is_superseded or self.cancel is not None:
            return "waits for the network"
        if self.crew.site.clock.now - self.leave >= LEAVE_SECONDS:
            return "waits for the network"
        return await self.start_engine()

    def _change(self) -> str:
        """What the engine does takes a while."""
        self._turns += 1
        if self._turns > 6:
            return self.end_engine(is_ok=True)
        if self._turns % 2 == 0:
            return self.write(is_inline=self._turns != 4)
        self.has_unsaved = True
        return "changes the world"

    async def _be_cleared_away(self) -> str:
        """Its runner lets the engine finish, delivers what is left by the attempt's own credential, and says that it is gone."""
        if self.is_mutating:
            return self.end_engine(is_ok=False)
        if not self.host.is_up or self.ref not in self.host.journal:
            return "is nobody's"
        if self.host.is_cut_off:
            return "waits for the network"
        if not self.is_delivered and not self.is_refused:
            if self.link is None or not self.link.is_open:
                return await self.connect()
            return await self.deliver("next", 8)
        await self.hang_up()
        return await self.host.report(self.ref)

    # ---- its events

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
        self.resume, self.is_planned, self.leave = None, False, None
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

    # ---- its engine

    async def start_engine(self) -> str:
        """What leave was given for. Every start is held against what else is going on at the module."""
        assert self.leave is not None
        await self.crew.witness(self)
        self.is_mutating = self.has_mutated = self.has_unsaved = True
        return "mutates"

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

    # ---- its connection

    async def connect(self) -> str:
        if self.late:
            await self.upload()
        self.link = link = Link(self.crew.site.server, self.credentials.hub, messages.decode_to_executor)
        link.say(
            messages.ExecutorHello(
                self.ref.job_id, self.ref.attempt, "0", version.OLDEST_VERSION, version.NEWEST_VERSION
            )
        )
        welcome = await link.reply(lambda told: isinstance(told, messages.ExecutorWelcome))
        if welcome is None:
            return f"not let in: {link.refusal}"
        assert self.acked <= welcome.mark <= len(self.outbox), "what was acknowledged is forgotten, or never came"
        self.acked = welcome.mark
        self.is_superseded = self.is_superseded or welcome.is_superseded
        return "connected"

    async def deliver(self, mode: Mode, count: int) -> str:
        assert self.link is not None
        first = self.acked + 1
        if mode == "again":
            first = max(1, first - count)
        elif mode == "gap":
            first += count
        batch = self.outbox[first - 1 : first - 1 + count]
        if not batch:
            return "has nothing to deliver"
        if mode == "reordered" and len(batch) > 1:
            half = len(batch) // 2
            self.link.say_bytes(self._frame(first + half, batch[half:]))
            self.link.say_bytes(self._frame(first, batch[:half]))
        else:
            frame = self._frame(first, batch)
            self.link.say_bytes(frame[:-1] if mode == "cut" else frame)
        if mode == "lost":
            await self.hang_up()
            return "delivered unheard"
        ack = await self.link.reply(lambda told: isinstance(told, messages.Ack))
        if ack is None:
            refusal, self.link = self.link.refusal, None
            self.is_refused = self.is_refused or refusal.startswith("nothing more is accepted")
            return f"delivery refused ({mode}): {refusal}"
        assert mode != "cut", "half a frame was taken"
        assert ack.mark <= first - 1 + len(batch), "more is acknowledged than was delivered"
        self.acked = max(self.acked, ack.mark)
        if self.acked < len(self.outbox) and self.late:
            await self.upload()
        return f"delivered to {self.acked}"

    async def send_after_the_result(self) -> str:
        """Something with the attempt's credential sends a state although the result has arrived."""
        if self.link is None or not self.link.is_open:
            await self.connect()
        if self.link is None or not self.link.is_open:
            return "not let in after its result"
        count, state = len(self.outbox), self.last_state
        self.write()
        link = self.link
        link.say_bytes(self._frame(count + 1, self.outbox[count:]))
        ack = await link.reply(lambda told: isinstance(told, messages.Ack))
        assert ack is None or ack.mark <= count, f"{self.name} delivered a state after its result"
        del self.outbox[count:]
        self.last_state = state
        await self.hang_up()
        return "refused after its result"

    def _frame(self, first: int, batch: list[bytes]) -> bytes:
        return frames.pack(first, len(batch), b"".join(batch))

    async def ask(self, question: Question, *, is_used: bool = True) -> str:
        """Ask for the permit to mutate, perhaps with wrong values, or without receiving the answer."""
        assert self.link is not None
        version = {"old": max(0, self.version - 1), "new": self.version + 1}.get(question, self.version)
        plan = self.resume.attempt if self.resume else None
        if question == "foreign":
            plan = self.ref.attempt if plan else max(1, self.ref.attempt - 1)
        sent = self.crew.site.clock.now
        before = await self.crew.standing(self)
        self.link.say(messages.Begin(version, plan))
        if question == "lost":
            await self.hang_up()
            return "asked unheard"
        answer = await self.link.reply(lambda told: isinstance(told, messages.Begun | messages.BeginRefused))
        if answer is None:
            self.link = None
            return "asked in vain"
        if isinstance(answer, messages.Begun):
            await self.crew.begun(self, before, version)
            if is_used and version == self.version and question != "foreign":
                self.leave = sent
            return "has a permit"
        if is_used:
            await self._refused(answer)
        return f"refused: {answer.code}"

    async def _refused(self, answer: messages.BeginRefused) -> None:
        match answer.code:
            case "state_moved":
                self.plan_again(*await self.crew.current_state(self.spec.module_id))
            case "approval":
                if self.resume is None:
                    await self._keep()
                else:
                    self.plan_again(*await self.crew.current_state(self.spec.module_id))
            case "superseded" | "quarantine":
                self.is_superseded = True
            case "canceled":
                self.cancel = self.cancel or "after_step"
            case "wait":
                pass

    async def _keep(self) -> None:
        """Store the plan for a person to look at, and end."""
        kept = KeptPlan(self.version, hashlib.sha256(self.name.encode()).hexdigest(), 1, f"/w/{self.name}")
        name = plan_store.object_of(self.ref.job_id, self.ref.attempt, kept.sha256)
        await self.crew.site.objects.put(name, b"x")
        self.emit(Result("WAITING", kept=kept))
        self.is_over = True

    def _listen(self) -> None:
        if self.link is not None:
            for told in self.link.read(messages.CancelAttempt):
                self.cancel = told.mode
            self.is_superseded = self.is_superseded or bool(self.link.read(messages.SupersededNotice))

    # ---- its ends

    async def stop(self) -> None:
        self.process = "dead"
        await self.hang_up()

    async def die(self, *, with_engine: bool, code: int = KILLED) -> None:
        if self.process == "alive":
            self.process = "dead"
        if with_engine:
            self.is_mutating = False
        await self.hang_up(code)

    async def hang_up(self, code: int = KILLED) -> None:
        link, self.link = self.link, None
        if link is not None:
            await link.hang_up(code)
