"""Reads what the overview shows beside the sums: slots of runners, what waits and runs now, and runners that are away."""

from collections.abc import Collection, Sequence
from typing import LiteralString

import msgspec

from terracrew.server.db.seam import Columns, Row, Tx
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
# `jobs.id > ''` makes SQLite use the index of the open jobs. It would read every job of the organization instead.
_OPEN: LiteralString = f"FROM jobs WHERE jobs.organization_id = :organization_id AND jobs.id > '' AND {IS_OPEN_JOB}"
# CROSS JOIN makes SQLite begin with the modules, of which there are few, and PostgreSQL does so by itself.
_OPEN_INSIDE: LiteralString = f"""
FROM (SELECT modules.id FROM inside JOIN modules ON modules.group_id = inside.id
    UNION ALL SELECT modules.id FROM batch
        JOIN modules ON modules.organization_id = batch.organization_id AND modules.path = batch.path) AS seen
CROSS JOIN jobs WHERE jobs.module_id = seen.id AND {IS_OPEN_JOB}"""
_INSIDE: LiteralString = """WITH RECURSIVE inside (id) AS (
    SELECT groups.id FROM batch
    JOIN groups ON groups.organization_id = batch.organization_id AND groups.path = batch.path
    UNION SELECT groups.id FROM inside JOIN groups ON groups.parent_id = inside.id)"""
_COUNTS: tuple[LiteralString, LiteralString] = "SELECT jobs.status, count(*) AS jobs", "GROUP BY jobs.status"
_OLDEST: tuple[LiteralString, LiteralString] = (
    "SELECT jobs.id, jobs.number, jobs.queued_at",
    "AND jobs.status = 'QUEUED' ORDER BY jobs.queued_at, jobs.id LIMIT 1",
)
_PLACES: Columns = {"organization_id": "text", "path": "text"}
_AWAY: LiteralString = """ SELECT runners.id, runners.path, runner_outages.since
FROM runner_outages JOIN runners ON runners.id = runner_outages.runner_id WHERE """
_OF_ORGANIZATION: LiteralString = (
    "(runners.organization_id = :organization_id OR runners.organization_id IS NULL AND :is_shared)"
)
_OF_SEEN_GROUPS: LiteralString = "runners.group_id IN (SELECT id FROM seen_groups)"
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
    rows = await tx.each(_GROUP_IDS, _PLACES, [(organization_id, path) for path in sorted(paths)])
    return {row["path"]: row["id"] for row in rows}


async def open_jobs(tx: Tx, organization_id: str, places: Sequence[str]) -> dict[str, int]:
    """Return how many jobs have not ended, by status, in groups with everything below them, and in modules.

    None of these places may be inside of another one of them.
    """
    return {row["status"]: row["jobs"] for row in await _open(tx, organization_id, places, _COUNTS)}


async def oldest_queued(tx: Tx, organization_id: str, places: Sequence[str]) -> Row | None:
    """Return the job that has waited for a runner for the longest time. One that waited for an approval before is queued anew."""
    rows = await _open(tx, organization_id, places, _OLDEST)
    return rows[0] if rows else None


async def _open(
    tx: Tx, organization_id: str, places: Sequence[str], question: tuple[LiteralString, LiteralString]
) -> list[Row]:
    select, rest = question
    if "" in places:
        return await tx.all(f"{select} {_OPEN} {rest}", organization_id=organization_id)
    given = [(organization_id, place) for place in places]
    return await tx.each(f"{_INSIDE} {select} {_OPEN_INSIDE} {rest}", _PLACES, given)


async def away(tx: Tx, organization_id: str, seen: Visible, count: int, *, is_shared: bool) -> list[Row]:
    """Return the runners of visible groups that are known to stay away, the newest first; `is_shared` adds the shared ones to those
    of a reader who sees everything. There are few."""
    if seen.is_nothing:
        return []
    if seen.is_everything(organization_id):
        sql = _AWAY + _OF_ORGANIZATION + _NEWEST_AWAY
        return await tx.all(sql, organization_id=organization_id, is_shared=is_shared, count=count)
    sql = visibility.SEEN_GROUPS + _AWAY + _OF_SEEN_GROUPS + _NEWEST_AWAY
    return await tx.all(sql, count=count, **visibility.params(seen))


async def ends_of_jobs(tx: Tx, job_ids: Sequence[str]) -> list[Row]:
    """Return when these jobs ended, and the paths of their modules."""
    return await tx.each_id(
        """SELECT jobs.id, jobs.finished_at, modules.path FROM batch JOIN jobs ON jobs.id = batch.id
        JOIN modules ON modules.id = jobs.module_id WHERE jobs.finished_at IS NOT NULL""",
        job_ids,
    )
