"""The lines in which queued jobs wait: one for each route. A slot that becomes free goes to the job that comes first in all lines."""

import heapq
from collections import defaultdict
from collections.abc import Iterable, Iterator

from terracrew.server.scheduling.assignment_view import Route
from terracrew.server.scheduling.queue import FairQueue, Waiting, turn


class WaitingLines:
    def __init__(self) -> None:
        self._lines: dict[Route, FairQueue] = {}
        self._at: dict[str, set[Route]] = defaultdict(set)
        """The lines that the runners of a place may be able to serve."""

    def push(self, job: Waiting, route: Route) -> None:
        """Put a job into its line, unless it is there already."""
        line = self._lines.get(route)
        if line is None:
            line = self._lines[route] = FairQueue()
            for place in route.places:
                self._at[place].add(route)
        if job.id not in line:
            line.push(job)

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
        self._lines.clear()
        self._at.clear()

    def in_turn(self, routes: Iterable[Route]) -> Iterator[Route]:
        """Yield again and again the line whose next job comes first. A line whose next job was not taken is not yielded again."""
        waiting = [
            (turn(job), place, route, line)
            for place, route in enumerate(routes)
            if (line := self._lines.get(route)) is not None and (job := line.peek()) is not None
        ]
        heapq.heapify(waiting)
        while waiting:
            was, place, route, line = heapq.heappop(waiting)
            yield route
            job = line.peek()
            if job is not None and turn(job) != was:
                heapq.heappush(waiting, (turn(job), place, route, line))

    def pop(self, route: Route) -> Waiting | None:
        """Remove and return the next job of a line."""
        line = self._lines.get(route)
        return line.pop() if line is not None else None
