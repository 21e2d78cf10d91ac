"""Groups that limit how many jobs run at once, in memory: which of them are full, and which jobs wait for a place in them.

The claim decides. This view keeps the scheduler from claims that would be refused, which would occupy slots meanwhile.
"""

from collections import Counter
from collections.abc import Iterable, Mapping

from terracrew.server.scheduling.assignment_view import covering
from terracrew.server.scheduling.queue import FairQueue, Waiting
from terracrew.server.scheduling.turns import GroupTurns


class Caps:
    def __init__(self) -> None:
        self._limits: dict[str, int] = {}
        """The highest number of running jobs, by place."""
        self._taken: dict[str, set[str]] = {}
        """The jobs that run or are being claimed, by place. A claim takes the place that its job needs."""
        self._places_of: dict[str, list[str]] = {}
        """The capped places of these jobs, by job."""
        self._running: set[str] = set()
        self._held: dict[str, FairQueue] = {}
        """The jobs that wait for a place in a group, by place."""
        self._turns = GroupTurns()
        """Whose turn it is when a group has a free place."""
        self._started: dict[str, Waiting] = {}
        self._ended: set[str] = set()

    @property
    def limits(self) -> Mapping[str, int]:
        return self._limits

    def begin_load(self) -> None:
        """Remember from now on which jobs start and end, because what is being read may not have them."""
        self._started, self._ended = {}, set()

    def load(self, limits: Mapping[str, int], running: Mapping[str, list[str]], claimed: Iterable[Waiting]) -> None:
        """Replace everything by what was read. Every job that waits has to be put into its line again afterwards."""
        self._limits = dict(limits)
        self._taken, self._places_of, self._running, self._held, self._turns = {}, {}, set(), {}, GroupTurns()
        for job_id, places in running.items():
            if job_id not in self._ended:
                self._take(job_id, [place for place in places if place in limits])
                self._running.add(job_id)
        for job in list(self._started.values()):
            self.start(job)
        for job in claimed:
            self.reserve(job)

    def full_place(self, job: Waiting) -> str | None:
        """Return the nearest group above the job that has no place for it; None if all have one."""
        return next((place for place in self._capped(job) if self._is_full(place)), None)

    def take_if_free(self, job: Waiting, places: Counter[str]) -> bool:
        """Return whether the groups above a job have a place for it beside what is in `places`, and add it to these."""
        capped = self._capped(job)
        if any(len(self._taken.get(place, ())) + places[place] >= self._limits[place] for place in capped):
            return False
        places.update(capped)
        return True

    def hold(self, place: str, job: Waiting) -> None:
        """Keep a job until there is a place for it in this group."""
        held = self._held.setdefault(place, FairQueue(self._turns))
        if job.id not in held:
            held.push(job)

    def forget(self, job_id: str) -> None:
        """Stop keeping a job, because it is not queued any more or has changed."""
        for held in self._held.values():
            held.discard(job_id)

    def reserve(self, job: Waiting) -> None:
        """Keep a place for a job that is being claimed."""
        self._take(job.id, self._capped(job))

    def start(self, job: Waiting) -> None:
        """Note that a job that was being claimed runs now."""
        self._started[job.id] = job
        self._running.add(job.id)
        self._take(job.id, self._capped(job))

    def release(self, job_id: str) -> list[str]:
        """Note that a job was not claimed. Returns the groups that have a free place now, unless the job runs."""
        return [] if job_id in self._running else self._release(job_id)

    def end(self, job_id: str) -> list[str]:
        """Note that a job does not run any more. Returns the groups that have a free place now."""
        self._started.pop(job_id, None)
        self._ended.add(job_id)
        self._running.discard(job_id)
        return self._release(job_id)

    def next_held(self, place: str) -> Waiting | None:
        """Remove and return the next job that was kept for this group and may be claimed now; None if there is none."""
        held = self._held.get(place)
        while held and place in self._limits and not self._is_full(place) and (job := held.pop()) is not None:
            other = self.full_place(job)
            if other is None:
                self._turns.take(job)
                return job
            self.hold(other, job)
        return None

    def _capped(self, job: Waiting) -> list[str]:
        return [place for place in covering(job) if place in self._limits] if self._limits else []

    def _is_full(self, place: str) -> bool:
        return len(self._taken.get(place, ())) >= self._limits[place]

    def _take(self, job_id: str, places: list[str]) -> None:
        if places:
            self._places_of[job_id] = places
        for place in places:
            self._taken.setdefault(place, set()).add(job_id)

    def _release(self, job_id: str) -> list[str]:
        places = self._places_of.pop(job_id, [])
        for place in places:
            self._taken[place].discard(job_id)
        return places
