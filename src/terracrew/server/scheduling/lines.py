"""The lines in which queued jobs wait: one for each route. A slot that becomes free goes to the job that comes first in all lines."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator

from terracrew.server.scheduling.assignment_view import Route
from terracrew.server.scheduling.queue import FairQueue, Waiting
from terracrew.server.scheduling.turns import GroupTurns


class WaitingLines:
    def __init__(self, turns: GroupTurns) -> None:
        self.turns = turns
        """Whose turn it is in all lines together."""
        self._lines: dict[Route, FairQueue] = {}
        self._at: dict[str, set[Route]] = defaultdict(set)
        """The lines that the runners of a place may be able to serve."""

    def push(self, job: Waiting, route: Route) -> None:
        """Put a job into its line, unless it is there already."""
        line = self._lines.get(route)
        if line is None:
            line = self._lines[route] = FairQueue(self.turns)
            for place in route.places:
                self._at[place].add(route)
        if job.id not in line:
            line.push(job)

    def __iter__(self) -> Iterator[tuple[Route, list[Waiting]]]:
        """Iterate over the lines in which jobs wait, each with its jobs in no particular order."""
        return ((route, line.jobs) for route, line in self._lines.items() if line)

    def is_empty(self, route: Route) -> bool:
        """Return whether no job waits in this line."""
        return not self._lines.get(route)

    def discard(self, job_id: str, route: Route) -> None:
        if line := self._lines.get(route):
            line.discard(job_id)

    def at(self, places: Iterable[str]) -> set[Route]:
        """Return the lines that runners of these places may be able to serve."""
        return {route for place in places for route in self._at.get(place, ())}

    def clear(self) -> None:
        for line in self._lines.values():
            line.clear()
        self._lines.clear()
        self._at.clear()

    def in_turn(self, routes: Iterable[Route]) -> Iterator[Route]:
        """Yield again and again the line whose next job comes first. A line whose next job was not taken is not yielded again."""
        waiting = [
            (place, number, route, line)
            for number, route in enumerate(routes)
            if (line := self._lines.get(route)) is not None and (place := self._place(line)) is not None
        ]
        heapq.heapify(waiting)
        while waiting:
            was, number, route, line = heapq.heappop(waiting)
            job, place = line.peek(), self._place(line)
            if job is None or place is None:
                continue
            if place == was:
                yield route
                if job.id in line or (place := self._place(line)) is None:
                    continue
            # Its group has had a turn in another line meanwhile, or its first job was taken.
            heapq.heappush(waiting, (place, number, route, line))

    def _place(self, line: FairQueue) -> tuple[int, int, int, float, str] | None:
        """Return the place of a line's next job among those of all lines; None if no job waits there."""
        job = line.peek()
        return None if job is None else (-job.priority, *self.turns.places(job), job.queued_at, job.id)

    def pop(self, route: Route) -> Waiting | None:
        """Remove and return the next job of a line. Its group has had its turn only if `turns.take` is called."""
        line = self._lines.get(route)
        return line.pop() if line is not None else None
