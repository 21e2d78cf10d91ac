"""Injects faults at random times for a bounded while, several at once, and undoes each after its duration."""

import heapq
import itertools
import random
import time

from tests.chaos.faults import Faults
from tests.chaos.installation import Installation
from tests.chaos.targets import Struck, Undo

_TICK = 0.05


class Storm:
    def __init__(self, site: Installation, faults: Faults, rng: random.Random) -> None:
        self._site, self._faults, self._random = site, faults, rng
        wanted = site.plan.faults or tuple(faults.all)
        self._names = [name for name in faults.all if name in wanted]
        self._weights = [faults.all[name][0] for name in self._names]
        self._undone: list[tuple[float, int, str, str, Undo]] = []
        self._order = itertools.count()
        self._first: list[str] = []

    def rage(self) -> None:
        """Inject faults until the time is over, then undo all of them."""
        end = time.monotonic() + self._site.plan.storm_seconds
        due = time.monotonic() + 2
        # Each fault once, in random order, before chance decides: none is forgotten in a short storm.
        self._first = self._random.sample(self._names, len(self._names))
        while time.monotonic() < end:
            self._undo(time.monotonic())
            self._site.restart_what_ended()
            if time.monotonic() >= due:
                self._strike_one()
                due = time.monotonic() + self._random.expovariate(1 / self._site.plan.every)
            time.sleep(_TICK)
        self._undo(float("inf"))

    def _strike_one(self) -> None:
        for name in self._first:
            if self._strike(name):
                self._first.remove(name)
                return
        self._strike(self._random.choices(self._names, self._weights)[0])

    def _strike(self, name: str) -> bool:
        struck = self._faults.all[name][1]()
        if struck is None:
            return False
        self._note(name, struck)
        return True

    def _note(self, name: str, struck: Struck) -> None:
        words = f"for {struck.seconds:.1f} s" if struck.seconds else ""
        if struck.stage:
            words = f"{words}, {struck.stage}"
        self._site.timeline.add("fault", name, f"{struck.target} {words}".strip(), struck.attempts)
        due = time.monotonic() + struck.seconds
        heapq.heappush(self._undone, (due, next(self._order), name, struck.target, struck.undo))

    def _undo(self, now: float) -> None:
        while self._undone and self._undone[0][0] <= now:
            _, _, name, target, undo = heapq.heappop(self._undone)
            if (next_stage := undo()) is not None:
                self._note(name, next_stage)
            else:
                self._site.timeline.add("heal", f"{name}: {target}")
