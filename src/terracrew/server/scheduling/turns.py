"""Whose turn it is. Within a priority, organizations take turns, and the groups of an organization do, whatever their jobs ask for.

Who begins to wait goes to the end, and so does who has had a turn. So nobody waits for longer than one turn of each of those who
were there before, however many jobs they have queued, and in however many lines.
"""

import heapq
from collections import Counter
from collections.abc import Callable
from typing import Protocol, TypeAlias

Key: TypeAlias = tuple[int, str] | tuple[int, str, str]
"""A priority and an organization, or these and a group: organizations may have groups with the same path."""


class TakesTurn(Protocol):
    """A job, as far as turns are concerned."""

    @property
    def priority(self) -> int: ...
    @property
    def organization_id(self) -> str: ...
    @property
    def group_path(self) -> str: ...


class GroupTurns:
    """The places of organizations and groups, which several queues share."""

    def __init__(self) -> None:
        self._last = 0
        self._places: dict[Key, int] = {}
        self._waiting = Counter[Key]()

    def join(self, job: TakesTurn) -> None:
        """Note that a job waits. The first one of a group puts the group at the end."""
        for key in _keys(job):
            self._waiting[key] += 1
            if key not in self._places:
                self._places[key] = self._next()

    def leave(self, job: TakesTurn) -> None:
        """Note that a job that waited does not wait any more."""
        for key in _keys(job):
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key], self._places[key]

    def take(self, job: TakesTurn) -> None:
        """Note that a job is served. Its organization and its group go to the end, if more of their jobs wait."""
        for key in _keys(job):
            if key in self._places:
                self._places[key] = self._next()

    def place(self, key: Key) -> int:
        """Return the place of an organization or a group; a lower one comes first. It only ever rises while jobs wait."""
        return self._places.get(key, 0)

    def places(self, job: TakesTurn) -> tuple[int, int]:
        """Return the places of a job's organization and group."""
        organization, group = _keys(job)
        return self.place(organization), self.place(group)

    def _next(self) -> int:
        self._last += 1
        return self._last


class InTurn:
    """Names in the order of their places, which may rise after a name was added."""

    def __init__(self, place: Callable[[str], int]) -> None:
        self._place = place
        self._heap: list[tuple[int, str]] = []

    def add(self, name: str) -> None:
        heapq.heappush(self._heap, (self._place(name), name))

    def first(self) -> str:
        """Return the name whose turn it is."""
        while True:
            place, name = self._heap[0]
            if (now := self._place(name)) <= place:
                return name
            heapq.heapreplace(self._heap, (now, name))

    def remove_first(self) -> None:
        """Remove the name that `first` has returned."""
        heapq.heappop(self._heap)


def _keys(job: TakesTurn) -> tuple[Key, Key]:
    return (job.priority, job.organization_id), (job.priority, job.organization_id, job.group_path)
