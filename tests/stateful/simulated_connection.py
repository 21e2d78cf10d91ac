"""The connection of a simulated executor to the server: delivery, questions for the permit, and what it is told."""

import hashlib
from typing import Literal

from terracrew.protocol import frames, messages, version
from terracrew.protocol.events import KeptPlan, Result
from terracrew.server.jobs.plans import store as plan_store
from tests.stateful.link import KILLED, Link
from tests.stateful.simulated_outbox import SimulatedOutbox

Mode = Literal["next", "again", "reordered", "gap", "cut", "lost"]
Question = Literal["right", "old", "new", "foreign", "lost"]


class SimulatedConnection(SimulatedOutbox):
    """Delivers the outbox, and asks for the permit to mutate, also in wrong ways."""

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
            plan = self.ref.attempt if plan is not None else max(1, self.ref.attempt - 1)
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
                self.permit_asked_at = sent
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
        self.emit(Result("WAITING", kept=await self._stored_plan()))
        self.is_over = True

    async def end_plan(self) -> str:
        """Store the plan of a PLAN job for another job, and end."""
        self.emit(Result("SUCCEEDED", f"said by {self.name}", kept=await self._stored_plan()))
        self.is_over = True
        return "ended SUCCEEDED with its plan"

    async def _stored_plan(self) -> KeptPlan:
        kept = KeptPlan(self.version, hashlib.sha256(self.name.encode()).hexdigest(), 1, f"/w/{self.name}")
        name = plan_store.object_of(self.ref.job_id, self.ref.attempt, kept.sha256)
        await self.crew.site.objects.put(name, b"x")
        return kept

    def _listen(self) -> None:
        if self.link is not None:
            for told in self.link.read(messages.CancelAttempt):
                self.cancel = told.mode
            self.is_superseded = self.is_superseded or bool(self.link.read(messages.SupersededNotice))

    async def hang_up(self, code: int = KILLED) -> None:
        link, self.link = self.link, None
        if link is not None:
            await link.hang_up(code)
