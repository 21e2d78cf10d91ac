"""Reads what the overview shows beside the sums: slots of runners, what waits and runs now, and runners that are away."""

from collections.abc import Collection, Sequence
from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Row, Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES, IS_OPEN_JOB
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible
from terracrew.server.runners import eligibility

_SLOTS: LiteralString = f"""
SELECT coalesce(runners.group_id, '') AS group_id, sum({eligibility.SLOTS}) AS slots
FROM instances JOIN runners ON runners.id = instances.runner_id
WHERE instances.is_connected AND NOT runners.is_disabled
GROUP BY coalesce(runners.group_id, '')"""
_OCCUPIED: LiteralString = f"""
SELECT coalesce(runners.group_id, '') AS group_id, CAST(jobs.claimed_at AS bigint) AS since, count(*) AS slots
FROM jobs JOIN runners ON runners.id = jobs.runner_id
WHERE jobs.organization_id = :organization_id AND jobs.status IN {ACTIVE_STATUSES} AND jobs.claimed_at IS NOT NULL
GROUP BY coalesce(runners.group_id, ''), CAST(jobs.claimed_at AS bigint)"""
_GROUP_IDS: LiteralString = """
SELECT groups.id, groups.path FROM batch
JOIN groups ON groups.organization_id = batch.organization_id AND groups.path = batch.path"""
_OPEN: LiteralString = f"""
SELECT jobs.status, count(*) AS jobs FROM jobs
WHERE jobs.organization_id = :organization_id AND {IS_OPEN_JOB} GROUP BY jobs.status"""
_IN_PLACES: LiteralString = """EXISTS (SELECT 1 FROM modules WHERE modules.id = jobs.module_id
    AND modules.organization_id = jobs.organization_id AND (CAST(:place AS text) = ''
        OR substr(modules.path, 1, length(CAST(:place AS text)) + 1) = CAST(:place AS text) || '/'))"""
_OPEN_IN_PLACE: LiteralString = f"""
SELECT jobs.status, count(*) AS jobs FROM jobs
WHERE jobs.organization_id = :organization_id AND {IS_OPEN_JOB} AND {_IN_PLACES} GROUP BY jobs.status"""
# `jobs.id > ''` makes SQLite use the index of the open jobs. It would read every job of the organization instead.
_OLDEST: LiteralString = f"""
SELECT jobs.id, jobs.number, jobs.queued_at FROM jobs
WHERE jobs.organization_id = :organization_id AND jobs.id > '' AND {IS_OPEN_JOB} AND jobs.status = 'QUEUED' AND {_IN_PLACES}
ORDER BY jobs.queued_at, jobs.id LIMIT 1"""
_AWAY: LiteralString = """ SELECT runners.id, runners.path, runner_outages.since, groups.path AS group_path
FROM runner_outages JOIN runners ON runners.id = runner_outages.runner_id JOIN groups ON groups.id = runners.group_id
WHERE runners.organization_id = :organization_id"""
_AWAY_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS + _AWAY + " AND runners.group_id IN (SELECT id FROM seen_groups)"
)
_NEWEST_AWAY: LiteralString = " ORDER BY runner_outages.since DESC, runners.id LIMIT :count"


class OccupiedSlots(msgspec.Struct, frozen=True):
    """Slots that have been occupied since about the same second."""

    group_id: str
    """The group of the runner; empty for a shared runner."""
    since: int
    slots: int


async def slots_by_group(tx: Tx) -> dict[str, int]:
    """Return how many jobs the connected instances may run at once, by the group of their runner; '' for the shared runners."""
    return {row["group_id"]: int(row["slots"]) for row in await tx.all(_SLOTS)}


async def occupied_slots(tx: Tx, organization_id: str) -> list[OccupiedSlots]:
    """Return the slots that jobs of an organization occupy now."""
    return rows_to(OccupiedSlots, await tx.all(_OCCUPIED, organization_id=organization_id))


async def group_ids(tx: Tx, organization_id: str, paths: Collection[str]) -> dict[str, str]:
    """Return the ids of those of these groups that exist, by their paths."""
    rows = await tx.each(
        _GROUP_IDS,
        {"organization_id": "text", "path": "text"},
        [(organization_id, path) for path in sorted(paths)],
    )
    return {row["path"]: row["id"] for row in rows}


async def open_jobs(tx: Tx, organization_id: str, places: Sequence[str]) -> dict[str, int]:
    """Return how many jobs have not ended, by status, in groups none of which is in another one."""
    found: dict[str, int] = {}
    for place in places:
        given = {"organization_id": organization_id} | ({"place": place} if place else {})
        for row in await tx.all(_OPEN_IN_PLACE if place else _OPEN, **given):
            found[row["status"]] = found.get(row["status"], 0) + row["jobs"]
    return found


async def oldest_queued(tx: Tx, organization_id: str, places: Sequence[str]) -> Row | None:
    """Return the job that has waited for a runner for the longest time. One that waited for an approval before is queued anew."""
    found = [await tx.one(_OLDEST, organization_id=organization_id, place=place) for place in places]
    return min((row for row in found if row is not None), key=lambda row: (row["queued_at"], row["id"]), default=None)


async def away(tx: Tx, organization_id: str, seen: Visible, count: int) -> list[Row]:
    """Return the runners of visible groups that are known to stay away, the newest first. There are few."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        return await tx.all(_AWAY + _NEWEST_AWAY, organization_id=organization_id, count=count)
    return await tx.all(
        _AWAY_OF_READER + _NEWEST_AWAY, organization_id=organization_id, count=count, **visibility.params(seen)
    )


async def ends_of_jobs(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return when these jobs ended, and the paths of their modules."""
    return await tx.each_id(
        """SELECT jobs.id, jobs.finished_at, modules.path FROM batch JOIN jobs ON jobs.id = batch.id
        JOIN modules ON modules.id = jobs.module_id WHERE jobs.finished_at IS NOT NULL""",
        job_ids,
    )
