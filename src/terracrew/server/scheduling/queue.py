"""The order of waiting jobs. A higher priority comes first; within a priority, organizations and their groups take turns; within a
group, the oldest is first. Of a module, one job runs at a time."""

import heapq
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TypeAlias

import msgspec

from terracrew.protocol.dispatcher_choice import NO_CHOICE, DispatcherChoice
from terracrew.server.jobs.queue_reads import turn_in_module
from terracrew.server.scheduling.turns import GroupTurns, InTurn


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
    has_merge: bool = False
    """Whether its source is the result of a merge, which runners of 0.1.0 do not know."""


Entry: TypeAlias = tuple[float, str, int, Waiting]
"""A job in a heap, the oldest first. A job that was read again may be there twice, so that each entry has a number of its own:
jobs themselves are never compared."""
MAX_DISCARDED_ENTRIES = 1_000
"""The heaps are compacted once discarded entries exceed the live ones by this many."""


class FairQueue:
    def __init__(self, turns: GroupTurns) -> None:
        """`turns` says whose turn it is. Other queues may share it."""
        self._turns = turns
        self._levels: dict[int, _PriorityLevel] = {}
        self._members: dict[str, Waiting] = {}
        self._discarded = 0
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._members

    @property
    def jobs(self) -> list[Waiting]:
        return list(self._members.values())

    @property
    def entries(self) -> int:
        """The number of jobs in the heaps, with those that were discarded."""
        return sum(len(jobs) for level in self._levels.values() for jobs in level.heaps())

    def push(self, job: Waiting) -> None:
        self._members[job.id] = job
        self._turns.join(job)
        level = self._levels.get(job.priority)
        if level is None:
            level = self._levels[job.priority] = _PriorityLevel(job.priority, self._turns)
        level.push(job, next(self._numbers))

    def discard(self, job_id: str) -> None:
        if (job := self._members.pop(job_id, None)) is not None:
            self._turns.leave(job)
            self._discarded += 1
            if self._discarded > MAX_DISCARDED_ENTRIES + len(self._members):
                self._clear_out()

    def clear(self) -> None:
        for job in self._members.values():
            self._turns.leave(job)
        self._members, self._levels, self._discarded = {}, {}, 0

    def _clear_out(self) -> None:
        for level in self._levels.values():
            for jobs in level.heaps():
                jobs[:] = [entry for entry in jobs if self._members.get(entry[1]) is entry[3]]
                heapq.heapify(jobs)
        self._discarded = 0

    def peek(self) -> Waiting | None:
        """Return the next job."""
        while self._levels:
            priority = max(self._levels)
            level = self._levels[priority]
            while level:
                jobs = level.first()
                while jobs:
                    job = jobs[0][3]
                    if self._members.get(job.id) is job:
                        return job
                    heapq.heappop(jobs)
                level.remove_first()
            del self._levels[priority]
        return None

    def pop(self) -> Waiting | None:
        """Remove and return the next job. Its group has had its turn only if `GroupTurns.take` is called."""
        job = self.peek()
        if job is not None:
            heapq.heappop(self._levels[job.priority].first())
            del self._members[job.id]
            self._turns.leave(job)
        return job


class _PriorityLevel:
    """The jobs of one priority, by organization and group."""

    def __init__(self, priority: int, turns: GroupTurns) -> None:
        self._priority, self._turns = priority, turns
        self._organizations = InTurn(lambda organization_id: turns.place((priority, organization_id)))
        self._groups: dict[str, InTurn] = {}
        """The groups of each organization."""
        self._jobs: dict[str, dict[str, list[Entry]]] = {}
        """A heap for each group of each organization."""

    def __bool__(self) -> bool:
        return bool(self._jobs)

    def heaps(self) -> Iterator[list[Entry]]:
        """Yield the jobs of each group."""
        for groups in self._jobs.values():
            yield from groups.values()

    def push(self, job: Waiting, number: int) -> None:
        own = job.organization_id
        if own not in self._jobs:
            self._jobs[own] = {}
            self._groups[own] = InTurn(lambda group: self._turns.place((self._priority, own, group)))
            self._organizations.add(own)
        groups = self._jobs[own]
        if job.group_path not in groups:
            groups[job.group_path] = []
            self._groups[own].add(job.group_path)
        heapq.heappush(groups[job.group_path], (job.queued_at, job.id, number, job))

    def first(self) -> list[Entry]:
        """Return the jobs of the group whose turn it is."""
        organization_id = self._organizations.first()
        return self._jobs[organization_id][self._groups[organization_id].first()]

    def remove_first(self) -> None:
        """Remove the group whose turn it is, which has no jobs left."""
        organization_id = self._organizations.first()
        groups = self._groups[organization_id]
        del self._jobs[organization_id][groups.first()]
        groups.remove_first()
        if not self._jobs[organization_id]:
            del self._jobs[organization_id], self._groups[organization_id]
            self._organizations.remove_first()


class ModuleQueues:
    def __init__(self) -> None:
        self._jobs: dict[str, list[Waiting]] = defaultdict(list)
        self.busy: set[str] = set()
        """Modules with an active job, a lock of a person, or a state that a person has to decide about first."""

    def add(self, job: Waiting) -> None:
        insort(self._jobs[job.module_id], job, key=turn_in_module)

    def remove(self, job: Waiting) -> None:
        jobs = self._jobs[job.module_id]
        del jobs[bisect_left(jobs, turn_in_module(job), key=turn_in_module)]
        if not jobs:
            del self._jobs[job.module_id]

    def of(self, module_id: str) -> Sequence[Waiting]:
        return self._jobs.get(module_id, ())

    def head(self, module_id: str) -> Waiting | None:
        jobs = self._jobs.get(module_id)
        return jobs[0] if jobs else None

    def heads(self) -> list[Waiting]:
        """Return the jobs that could run now, as far as their modules are concerned."""
        return [jobs[0] for module_id, jobs in self._jobs.items() if module_id not in self.busy]

    def is_next(self, job: Waiting) -> bool:
        """Return whether it is the job that its module runs next, and may run now."""
        return job.module_id not in self.busy and self.head(job.module_id) is job

    def clear(self) -> None:
        self._jobs.clear()
