"""The queued jobs of each module, in the order in which they run, and the modules that cannot run one now."""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence

from terracrew.server.jobs.model import turn_in_module
from terracrew.server.scheduling.queue import Waiting


class ModuleQueues:
    def __init__(self) -> None:
        self._jobs: dict[str, list[Waiting]] = defaultdict(list)
        self.busy: set[str] = set()
        """Modules with an active job, or with a state that a person has to decide about first."""

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
