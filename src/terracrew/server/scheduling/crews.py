"""The runners that could take queued jobs: which places have runners, and which of these are online.

The same few statements answer for all jobs of a page.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from terracrew.protocol.dispatcher_choice import DispatcherChoice
from terracrew.server.db.kept import KeptAnswers
from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import queue_reads
from terracrew.server.runners import crew_reads
from terracrew.server.runners.seat_reads import available
from terracrew.server.scheduling import select
from terracrew.server.scheduling.select import Tier
from terracrew.server.tree.groups import reads as group_reads

_choice = msgspec.json.Decoder(DispatcherChoice)
SHARED = ""
"""The place of the shared runners, which serve every organization."""
MIN_KEPT_RUNNERS = 200
"""Crews with fewer runners are read for each request."""


class Crew(Tier, frozen=True):
    """The runners that are assigned to one place of the tree, and how many of their instances can run a job."""

    place_id: str
    in_contact: int
    """How many of the online instances were in contact lately. After a start of the server, the others may be reconnecting."""
    slots: int
    """How many jobs the instances that can run the job may have at once."""
    instance_id: str | None
    """The id of an instance that can run the job; None if there is none."""
    announced: tuple[str, ...] = ()
    """The different announcements of dispatchers, as JSON, of the online instances with the wanted tags. They are read only
    for a job that asks for something of a dispatcher."""


class CrewNeeds(NamedTuple):
    """What a job needs at one place of the tree."""

    place_id: str
    instance_name: str
    """The name of the wanted instance; empty for any instance."""
    engine: str
    engine_version: str = ""
    """The range of versions of the engine; empty for any."""
    tags: str = "[]"
    """The tags that a runner must have, as JSON."""
    choice: str = "{}"
    """What is asked of a dispatcher, as JSON."""


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


async def crews(tx: Tx, wanted: Collection[CrewNeeds]) -> dict[CrewNeeds, Crew]:
    """Return the crew of each wanted place. Places without runners are left out.

    The numbers of a large crew may be a moment old.
    """
    return await LARGE_CREWS.get(tx, wanted)


async def _read_crews(tx: Tx, wanted: Collection[CrewNeeds]) -> dict[CrewNeeds, Crew]:
    asked: list[CrewNeeds] = sorted(wanted)
    rows = await crew_reads.counts(tx, asked)
    of_place = [(asked[int(row["number"])], row) for row in rows if row["runners"]]
    found = {place: row_to(Crew, {**row, "place_id": place.place_id}) for place, row in of_place}
    choosing = [each for each in asked if each.choice != "{}" and each in found]
    if not choosing:
        return found
    announced: dict[CrewNeeds, list[Row]] = {each: [] for each in choosing}
    for row in await crew_reads.announcements(tx, choosing):
        announced[choosing[int(row["number"])]].append(row)
    sleeping: dict[CrewNeeds, list[Row]] = {each: [] for each in choosing}
    for row in (
        await crew_reads.wakeable_announcements(tx, choosing) if any(found[each].wakeable for each in choosing) else ()
    ):
        sleeping[choosing[int(row["number"])]].append(row)
    return found | {each: _offering(each, found[each], announced[each], sleeping[each]) for each in choosing}


def _offering(wanted: CrewNeeds, crew: Crew, announcements: Sequence[Row], sleeping: Sequence[Row]) -> Crew:
    """Count the instances that offer what a job asks for, and the runners that would, from what their instances announced."""
    choice = _choice.decode(wanted.choice)
    offering = [(row, have) for row in announcements if (have := available(row)).offers(choice)]
    able = [row for row, have in offering if have.can_run(wanted.engine, wanted.engine_version, choice)]
    needs = select.JobNeeds(wanted.engine, engine_version=wanted.engine_version, choice=choice)
    lacking = [
        select.lacks_asleep(needs, frozenset(), None if row["instance_id"] is None else available(row))
        for row in sleeping
    ]
    return msgspec.structs.replace(
        crew,
        offering=sum(row["instances"] for row, _ in offering),
        able=sum(row["instances"] for row in able),
        free=sum(row["free"] for row in able),
        slots=sum(row["slots"] for row in able),
        instance_id=min((row["instance_id"] for row in able), default=None),
        announced=tuple(
            dict.fromkeys(row["dispatchers"] for row in (*announcements, *sleeping) if row["dispatchers"] is not None)
        ),
        wakeable_offering=sum(code != "no_dispatcher" for code in lacking),
        wakeable_able=sum(code is None for code in lacking),
    )


def _is_large(wanted: CrewNeeds, crew: Crew) -> bool:
    """Return whether the answer is kept. That of the shared runners is not, because their place has the same name in every database."""
    return crew.runners >= MIN_KEPT_RUNNERS and wanted.place_id != SHARED


LARGE_CREWS: KeptAnswers[CrewNeeds, Crew] = KeptAnswers(_read_crews, _is_large)
"""Counting thousands of runners takes tens of milliseconds, and every list of jobs needs the count of the whole organization."""


async def members(tx: Tx, places: Collection[str]) -> dict[str, list[Row]]:
    """Return the first runners of each place by their paths, each with the instance of the latest contact."""
    found: dict[str, list[Row]] = {}
    for row in await crew_reads.first_members(tx, places):
        found.setdefault(row["place_id"], []).append(row)
    return found
