"""The runners that queued jobs could go to: which places have runners, who is online there, and who is not.

All jobs of a page are answered by the same few statements.
"""

from collections.abc import Collection
from typing import NamedTuple

import msgspec

from terracrew.server.db.kept import KeptAnswers
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.groups import reads as group_reads
from terracrew.server.jobs import queue_reads
from terracrew.server.runners import crew_reads

SHARED = ""
"""The place of the runners that serve everybody."""
MIN_KEPT_RUNNERS = 200
"""Smaller crews are read each time."""


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

    A large crew may be as it was a moment ago.
    """
    return await LARGE_CREWS.get(tx, wanted)


async def _read_crews(tx: Tx, wanted: Collection[Wanted]) -> dict[Wanted, Crew]:
    rows = await crew_reads.counts(tx, wanted)
    return {Wanted(row["place_id"], row["name"], row["engine"]): row_to(Crew, row) for row in rows if row["runners"]}


def _is_large(wanted: Wanted, crew: Crew) -> bool:
    """The shared runners are not kept: their place has the same name in every database."""
    return crew.runners >= MIN_KEPT_RUNNERS and wanted.place_id != SHARED


LARGE_CREWS: KeptAnswers[Wanted, Crew] = KeptAnswers(_read_crews, _is_large)
"""To sum up thousands of runners takes tens of milliseconds, and every list of jobs asks for those of the whole organization."""


async def members(tx: Tx, places: Collection[str]) -> dict[str, list[Row]]:
    """Return the first runners of each place by their paths, each with the instance of the latest contact."""
    found: dict[str, list[Row]] = {}
    for row in await crew_reads.first_members(tx, places):
        found.setdefault(row["place_id"], []).append(row)
    return found
