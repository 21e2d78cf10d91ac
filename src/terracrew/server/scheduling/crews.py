"""The runners that queued jobs could go to: which places have runners, who is online there, and who is not.

All jobs of a page are answered by the same few statements.
"""

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.groups import reads as group_reads
from terracrew.server.jobs import queue_reads
from terracrew.server.runners import crew_reads

SHARED = ""
"""The place of the runners that serve everybody."""
KEPT_SECONDS = 1.0
MIN_KEPT_RUNNERS = 200
"""Smaller crews are read each time."""
MAX_KEPT_CREWS = 1_000


class Crew(msgspec.Struct, frozen=True):
    """The runners that are assigned at one place of the tree, `online` of whose instances take jobs."""

    place_id: str
    runners: int
    online: int
    named: int
    """How many of the online ones have the name that was asked for."""
    able: int
    """How many of those have the engine that was asked for."""
    slots: int
    free: int
    """How many of the online ones have a free slot."""
    runner_id: str | None
    """One that is online."""


class Wanted(NamedTuple):
    """What a job asks for at one place of the tree."""

    place_id: str
    instance_name: str
    """Empty for any instance."""
    engine: str


class LargeCrews:
    """Crews of thousands of runners, kept for a moment: to sum one up takes tens of milliseconds, and every list of jobs asks
    for the one that serves the whole organization. Places are known by their ids, which no two databases share."""

    def __init__(self) -> None:
        self._kept: dict[Wanted, tuple[float, Crew]] = {}

    def get(self, key: Wanted, now: float) -> Crew | None:
        read_at, crew = self._kept.get(key, (0.0, None))
        return crew if 0 <= now - read_at < KEPT_SECONDS else None

    def keep(self, key: Wanted, crew: Crew, now: float) -> None:
        if crew.runners < MIN_KEPT_RUNNERS or crew.place_id == SHARED:
            return
        if len(self._kept) >= MAX_KEPT_CREWS:
            self._kept = {}
        self._kept[key] = now, crew


_LARGE = LargeCrews()


async def modules(tx: Tx, job_ids: Collection[str]) -> dict[str, Row]:
    """Return the module of each job, and the only runner that may continue with its plan, if there is such a plan."""
    return {row["job_id"]: row for row in await queue_reads.modules(tx, job_ids)}


async def groups_above(tx: Tx, group_ids: Collection[str]) -> dict[str, list[str]]:
    """Return each group and those above it, nearest first."""
    found: dict[str, list[str]] = {}
    for row in await group_reads.above(tx, group_ids):
        found.setdefault(row["start_id"], []).append(row["id"])
    return found


async def assigned_places(tx: Tx, runner_ids: Collection[str]) -> dict[str, set[str]]:
    """Return the places that each of these runners serves."""
    found: dict[str, set[str]] = {}
    for row in await crew_reads.assigned_places(tx, runner_ids):
        found.setdefault(row["id"], set()).add(row["place_id"])
    return found


async def crews(tx: Tx, wanted: Collection[Wanted]) -> dict[Wanted, Crew]:
    """Return the crew of each place that is asked for. Empty places are left out.

    A large crew may be as it was up to a second ago.
    """
    kept = {key: crew for key in wanted if (crew := _LARGE.get(key, tx.now))}
    rows = await crew_reads.counts(tx, [key for key in wanted if key not in kept])
    read = {Wanted(row["place_id"], row["name"], row["engine"]): row_to(Crew, row) for row in rows if row["runners"]}
    for key, crew in read.items():
        _LARGE.keep(key, crew, tx.now)
    return kept | read


async def members(tx: Tx, places: Collection[str]) -> dict[str, list[Row]]:
    """Return the first runners of each place by their paths, each with the instance of the latest contact."""
    found: dict[str, list[Row]] = {}
    for row in await crew_reads.first_members(tx, places):
        found.setdefault(row["place_id"], []).append(row)
    return found
