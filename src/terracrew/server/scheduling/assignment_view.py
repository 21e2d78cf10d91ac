"""The assignments of runners to places, in memory, so that a change of one runner costs only as much as it changes.

A place is a module, a group, or everything (for shared runners). A job waits in a line that is named after the places that
cover its module, not after the runners there. So a runner that is added to a place that has others moves no job at all.
"""

import asyncio
from collections.abc import Iterable, Iterator

from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.runners import reads as runners
from terracrew.server.runners.assignments import store as assignments
from terracrew.server.scheduling.queue import Waiting
from terracrew.server.scheduling.select import JobNeeds

EVERYWHERE = "*"
"""The place of shared runners."""
PAGE_ROWS = 200


class Route(JobNeeds, frozen=True, kw_only=True, cache_hash=True):
    """What decides which runners can take a job. Jobs with equal routes wait in one line."""

    places: tuple[str, ...]
    """The places with runners that cover the module, the nearest first."""


class AssignedRunners:
    """The runners of one place, as a sequence and as a set."""

    def __init__(self, runners: Iterable[str]) -> None:
        self.runners = tuple(runners)
        self.known = frozenset(self.runners)


class AssignmentView:
    def __init__(self) -> None:
        self._members: dict[str, AssignedRunners] = {}
        """The runners of each place that has some."""
        self._places: dict[str, frozenset[str]] = {}
        """The places of each runner."""
        self.is_loaded = False

    async def load(self, db: Database) -> None:
        """Read all assignments again, page by page."""
        found: dict[str, set[str]] = {}
        last = ("", "")
        while True:
            rows = await db.read(lambda tx, last=last: assignments.page(tx, *last, PAGE_ROWS))
            for row in rows:
                found.setdefault(row["runner_id"], set()).add(_place(row))
            if len(rows) < PAGE_ROWS:
                break
            last = (rows[-1]["runner_id"], rows[-1]["place_id"])
            await asyncio.sleep(0)  # SQLite is read on the event loop, so other tasks get a turn between two pages
        for runner_id in await db.read(runners.shared_ids):
            found[runner_id] = {EVERYWHERE}
        self._places = {runner_id: frozenset(places) for runner_id, places in found.items()}
        members: dict[str, list[str]] = {}
        for runner_id in sorted(found):
            for place in found[runner_id]:
                members.setdefault(place, []).append(runner_id)
        self._members = {place: AssignedRunners(runners) for place, runners in members.items()}
        self.is_loaded = True

    def places_of(self, runner_id: str) -> frozenset[str]:
        return self._places.get(runner_id, frozenset())

    def assign(self, runner_id: str, places: frozenset[str]) -> set[str]:
        """Set the places of a runner. Returns the places that got their first runner or lost their last one."""
        before = self.places_of(runner_id)
        turned: set[str] = set()
        for place in before - places:
            left = AssignedRunners(each for each in self._members[place].runners if each != runner_id)
            if left.runners:
                self._members[place] = left
            else:
                del self._members[place]
                turned.add(place)
        for place in places - before:
            others = self._members.get(place)
            if others is None:
                turned.add(place)
            self._members[place] = AssignedRunners((*(others.runners if others else ()), runner_id))
        if places:
            self._places[runner_id] = places
        else:
            self._places.pop(runner_id, None)
        return turned

    def route(self, job: Waiting) -> Route:
        places = tuple(place for place in covering(job) if place in self._members)
        needs = job.engine, job.tags, job.runner_instance_name, job.runner_id, job.engine_version, job.choice
        return Route(*needs, places=places)

    def tiers(self, route: Route) -> Iterator[AssignedRunners]:
        """Yield the runners that may take a job, the nearest first."""
        if route.runner_id is None:
            yield from (self._members[place] for place in route.places if place in self._members)
        elif any(place in self.places_of(route.runner_id) for place in route.places):
            yield AssignedRunners([route.runner_id])


async def places_in_database(tx: Tx, runner_id: str) -> frozenset[str]:
    if await runners.is_shared(tx, runner_id):
        return frozenset([EVERYWHERE])
    return frozenset(map(_place, await assignments.places(tx, runner_id)))


def is_covered(job: Waiting, places: Iterable[str]) -> bool:
    covered_by = set(covering(job))
    return any(place in covered_by for place in places)


def covering(job: Waiting) -> Iterator[str]:
    """Yield every place that covers a job's module, the nearest first."""
    yield job.module_id
    yield from groups_above(job.organization_id, job.group_path)
    yield EVERYWHERE


def groups_above(organization_id: str, path: str) -> Iterator[str]:
    """Yield the group with this path and the groups above it as places, the nearest first."""
    while path:
        yield f"{organization_id}/{path}"
        path = path.rpartition("/")[0]
    yield f"{organization_id}/"


def _place(row: Row) -> str:
    return str(row["place_id"]) if row["kind"] == "module" else f"{row['organization_id']}/{row['path']}"
