"""The walk: breadth first through every world within the bounds, with the shortest way to the first that breaks a rule."""

import gc
import time
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.explore.moves import ACT, END, FAULT, STEP, WORDS, Bounds, Move, Moves, words
from tests.explore.rules import Rule, about, is_settled
from tests.explore.server import Server
from tests.explore.world import Job, World, named, tidy, trim

EVERY = 100_000
START = World(jobs=(Job("QUEUED"), Job("QUEUED", needs_approval=True)))


class Found(NamedTuple):
    worlds: int
    moves: int
    depth: int
    seconds: float
    """Of the processor."""
    broken: str = ""
    """The sentence that does not hold."""
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        rate = self.worlds / max(self.seconds, 0.001)
        head = f"{self.worlds:,} worlds, {self.moves:,} moves, {self.depth} deep, {self.seconds:.1f} s ({rate:,.0f} worlds/s)"
        if not self.broken:
            return head
        return "\n".join([head, self.broken, *(f"{n:3} {line}" for n, line in enumerate(self.trace, 1))])


class Walk:
    def __init__(self, server: Server, bounds: Bounds, start: World = START) -> None:
        self.moves, self.bounds = Moves(server, bounds), bounds
        self.rules = {name: about(name) for name in WORDS}
        self.start = tidy(start)
        self._index: dict[World, int] = {self.start: 0}
        self._worlds: list[World] = [self.start]
        self._parents, self._depths, self._faults = array("l", [-1]), array("l", [0]), array("b", [0])
        self._from, self._to = array("l"), array("l")
        self._count = 0

    def run(self, say: Callable[[str], None] = lambda _: None) -> Found:
        gc.disable()  # which would look again and again at millions of tuples, among which there is no cycle
        try:
            return self._run(say)
        finally:
            gc.enable()

    def _run(self, say: Callable[[str], None]) -> Found:
        began = time.process_time()
        queue = [0]
        for n, here in enumerate(queue, 1):  # to which is added what is found
            if n % EVERY == 0:
                say(str(self._found(began, here)))
            broken = self._expand(here, queue)
            if broken is not None:
                return self._found(began, here, *broken)
        stuck = self._stuck()
        return self._found(began, queue[-1]) if stuck is None else self._found(began, stuck, is_settled)

    def _expand(self, here: int, queue: list[int]) -> tuple[Rule, Move] | None:
        world, spent = self._worlds[here], self._faults[here]
        for move in self.moves(world, is_calm=spent >= self.bounds.faults):
            self._count += 1
            for rule in self.rules[move.name]:
                if not rule(world, move):
                    return rule, move
            after = tidy(move.after)
            faults = spent + (move.kind in (FAULT, END))
            there = self._index.get(after)
            if there is None:
                there = self._index[after] = len(self._worlds)
                self._worlds.append(after)
                self._parents.append(here)
                self._depths.append(self._depths[here] + 1)
                self._faults.append(faults)
                queue.append(there)
            elif faults < self._faults[there]:
                self._faults[there] = faults
                if self._depths[there] == self._depths[here] + 1:
                    self._parents[there] = here
                queue.append(there)
            if move.kind in (STEP, ACT):
                self._from.append(here)
                self._to.append(there)
        return None

    # ---- no stuck job

    def _stuck(self) -> int | None:
        """The first world from which nothing but a fault or a cancellation leads to an end."""
        into: list[list[int]] = [[] for _ in self._worlds]
        for here, there in zip(self._from, self._to, strict=True):
            into[there].append(here)
        left = self.moves.attempts_left
        work = [i for i, world in enumerate(self._worlds) if is_settled(world, attempts_left=left(world))]
        is_good = bytearray(len(self._worlds))
        for i in work:
            is_good[i] = 1
        while work:
            for here in into[work.pop()]:
                if not is_good[here]:
                    is_good[here] = 1
                    work.append(here)
        stuck = is_good.find(0)
        return None if stuck < 0 else stuck

    # ---- in words

    def _found(
        self, began: float, here: int, rule: Callable[..., bool] | None = None, last: Move | None = None
    ) -> Found:
        sentence = " ".join((rule.__doc__ or "").split()) if rule else ""
        trace = tuple(self._told(here, last)) if rule else ()
        depth = self._depths[here] + (last is not None)
        return Found(len(self._worlds), self._count, depth, time.process_time() - began, sentence, trace)

    def _told(self, here: int, last: Move | None) -> Iterator[str]:
        way = [here]
        while self._parents[way[-1]] >= 0:
            way.append(self._parents[way[-1]])
        world = trim(self.start)
        for i in reversed(way[:-1]):  # with its own names: in the walk, runners that are alike change places
            move = next(move for move in self.moves(world) if named(trim(move.after)) == self._worlds[i])
            yield words(move)
            world = trim(move.after)
        if last is not None:
            goal = tidy(last.after)
            final = next(move for move in self.moves(world) if move.name == last.name and tidy(move.after) == goal)
            yield words(final)
            world = final.after
        jobs = (f"job {j + 1} is {job.status} (attempt {job.attempt})" for j, job in enumerate(world.jobs))
        yield f"now {', '.join(jobs)}"
