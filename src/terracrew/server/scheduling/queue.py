"""The order of waiting jobs. A higher priority comes first; within a priority, groups take turns; within a group, the oldest is first."""

import heapq
from collections import OrderedDict

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice


class Waiting(msgspec.Struct, frozen=True):
    """A queued job, as far as the scheduler needs to know it."""

    id: str
    number: int
    attempt: int
    organization_id: str
    module_id: str
    module_path: str
    group_path: str
    engine: str
    priority: int
    queued_at: float
    runner_id: str | None = None
    runner_instance_name: str | None = None
    made_by: str | None = None
    """The instance that made the plan that the job continues with."""
    engine_version: str = ""
    """The range of versions of the engine that it may run with; empty for any."""
    tags: frozenset[str] = frozenset()
    """Only a runner that has all of these tags may take the job."""
    choice: DispatcherChoice = NO_CHOICE
    """What the job asks of the dispatcher that starts it."""


def turn(job: Waiting) -> tuple[int, float, str]:
    """Return the sort key of a job: a higher priority comes first, then the older job."""
    return -job.priority, job.queued_at, job.id


def _group(job: Waiting) -> tuple[str, str]:
    """Return the group whose turn a job takes. Organizations may have groups with the same path."""
    return job.organization_id, job.group_path


MAX_DISCARDED_ENTRIES = 1_000
"""The heap is compacted once discarded entries exceed the live ones by this many."""


class FairQueue:
    def __init__(self) -> None:
        self._levels: dict[int, OrderedDict[tuple[str, str], list[tuple[float, str, Waiting]]]] = {}
        self._members: dict[str, Waiting] = {}
        self._discarded = 0

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._members

    def push(self, job: Waiting) -> None:
        self._members[job.id] = job
        group = self._levels.setdefault(job.priority, OrderedDict()).setdefault(_group(job), [])
        heapq.heappush(group, (job.queued_at, job.id, job))

    def discard(self, job_id: str) -> None:
        if self._members.pop(job_id, None) is not None:
            self._discarded += 1
            if self._discarded > MAX_DISCARDED_ENTRIES + len(self._members):
                self._clear_out()

    def _clear_out(self) -> None:
        for level in self._levels.values():
            for name, group in list(level.items()):
                level[name] = [entry for entry in group if self._members.get(entry[1]) is entry[2]]
                heapq.heapify(level[name])
        self._discarded = 0

    def peek(self) -> Waiting | None:
        """Return the next job."""
        while self._levels:
            priority = max(self._levels)
            level = self._levels[priority]
            while level:
                name, group = next(iter(level.items()))
                while group:
                    job = group[0][2]
                    if self._members.get(job.id) is job:
                        return job
                    heapq.heappop(group)
                del level[name]
            del self._levels[priority]
        return None

    def pop(self) -> Waiting | None:
        """Remove and return the next job. Its group goes to the end of the line."""
        job = self.peek()
        if job is not None:
            level = self._levels[job.priority]
            heapq.heappop(level[_group(job)])
            level.move_to_end(_group(job))
            del self._members[job.id]
        return job
