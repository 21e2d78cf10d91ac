"""A simulated executor: what it does next, whether it is changing the world, and how it ends."""

from tests.stateful.link import KILLED
from tests.stateful.simulated_connection import Mode as Mode
from tests.stateful.simulated_connection import Question as Question
from tests.stateful.simulated_connection import SimulatedConnection

PERMIT_SECONDS = 5.0


class Executor(SimulatedConnection):
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
        return self.host.is_cut_off and (self.permit_asked_at is None or self.has_mutated or self.is_over)

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
        if self.is_planned and not self.may_mutate and not is_stopping:
            return await self.end_plan()
        if is_stopping or (self.is_planned and not self.may_mutate) or self.has_mutated:
            return self.finish("CANCELED" if is_stopping and not self.has_mutated else "SUCCEEDED")
        if not self.is_planned:
            return self.work()
        if self.permit_asked_at is None or self.crew.site.clock.now - self.permit_asked_at >= PERMIT_SECONDS:
            return await self.ask("right")
        return await self.start_engine()

    async def _go_on_alone(self) -> str:
        """Without the server: an engine that runs goes on, and a permit that was given is good for its five seconds."""
        if self.is_mutating:
            return self._change()
        if (
            self.permit_asked_at is None
            or self.has_mutated
            or self.is_over
            or self.is_superseded
            or self.cancel is not None
        ):
            return "waits for the network"
        if self.crew.site.clock.now - self.permit_asked_at >= PERMIT_SECONDS:
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

    async def start_engine(self) -> str:
        """What the permit was given for. Every start is held against what else is going on at the module."""
        assert self.permit_asked_at is not None
        await self.crew.witness(self)
        self.is_mutating = self.has_mutated = self.has_unsaved = True
        return "mutates"

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
