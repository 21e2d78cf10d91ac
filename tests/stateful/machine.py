"""The state machine that makes things happen in any order and checks all rules of the product after each step."""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable
from contextlib import AbstractContextManager, ExitStack
from random import Random
from typing import ClassVar, TypeVar, cast

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from terracrew.protocol.spec import JobType
from tests.stateful.happenings import HAPPENINGS, Happening
from tests.stateful.simulation import Simulation

T = TypeVar("T")
MAX_STEP_SECONDS = 600.0
"""The last step waits for jobs that never end, for 200 rounds: on a busy machine that takes a minute and more."""


class Machine(RuleBasedStateMachine):
    done: ClassVar[Counter[str]] = Counter()
    """How many steps were done of each kind."""
    seen: ClassVar[Counter[str]] = Counter()
    """What came about."""

    @staticmethod
    def fresh() -> AbstractContextManager[str]:
        """Open a separate database for each example."""
        raise NotImplementedError

    is_shrunk: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self._count = 0
        self._stack = ExitStack()
        url = self._stack.enter_context(type(self).fresh())
        self._loop = asyncio.new_event_loop()
        self._has_failed = False
        self.simulation = self._run(Simulation.make(url))
        self._run(self._begin())

    async def _begin(self) -> None:
        for host in self.simulation.crew.hosts:
            await host.connect()
        await self.simulation.create(self.simulation.modules[0], JobType.APPLY, needs_approval=False)
        await self.simulation.check()

    @rule(seed=st.integers(0, (1 << 24) - 1))  # of a wider range it would choose small ones most of the time
    def something_happens(self, seed: int) -> None:
        """One thing, chosen by its weight; then all go on with what they were doing, for a while.

        Hypothesis would rather do few things often than many things seldom, so it chooses the seeds only. Where it is to
        find the shortest example that fails, each step stays what it was when others are left out; else no two are alike.
        """
        self._has_failed = True
        self._count += 1
        random = Random(seed if self.is_shrunk else f"{seed} {self._count}")
        while (work := (happening := _chosen(random))(self.simulation, random)) is None:
            pass
        name = happening.__name__
        note(f"  {name}")
        self._look(self._run(work))
        for _ in range(random.randrange(10)):
            if actions := self.simulation.natural():
                self._look(self._run(random.choice(actions)[1]()), with_reasons=False)
        self.done[name] += 1
        self._has_failed = False

    def teardown(self) -> None:
        try:
            if not self._has_failed:
                note("  all hosts are lost")
                self._run(self.simulation.all_die())
                note("  and come back")
                self._run(self.simulation.all_ends())
        finally:
            self.seen.update(self.simulation.summary())
            try:
                self._run(self.simulation.close())
            finally:
                self._loop.close()
                self._stack.close()

    def _look(self, told: object, *, with_reasons: bool = True) -> None:
        for each in cast("list[object]", told) if isinstance(told, list) else [told]:
            if each is not None:
                note(f"    {each}")
                self.seen[re.sub(r"[0-9.]+|:.*", "", str(each)).strip()] += 1
        self._run(self.simulation.check(with_reasons=with_reasons))

    def _run(self, work: Awaitable[T]) -> T:
        return self._loop.run_until_complete(asyncio.wait_for(work, MAX_STEP_SECONDS))


def _chosen(random: Random) -> Happening:
    return random.choices(list(HAPPENINGS), list(HAPPENINGS.values()))[0]
