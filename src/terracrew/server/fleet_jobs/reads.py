"""Reads the jobs of the fleet as people see them: lists by filters, steps, and the log from any line on."""

from collections.abc import Iterable
from typing import LiteralString

import msgspec

from terracrew.api.fleet_jobs import FleetJob, FleetJobStatus, FleetJobType, FleetLine, FleetStep
from terracrew.server.db.seam import Param, Tx
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.fleet_jobs.store import FLEET_JOBS, FLEET_LOG, FLEET_STEPS
from terracrew.server.principals import visibility
from terracrew.server.principals.authorize import Visible

NEWEST_FLEET_JOB_ID = "fjb_zzzz"
"""Sorts after the id of every job."""
_FILTERS: LiteralString = """ AND fleet_jobs.organization_id = :organization_id AND fleet_jobs.id < :before
    AND (CAST(:type AS text) IS NULL OR fleet_jobs.type = CAST(:type AS text))
    AND (CAST(:status AS text) IS NULL OR fleet_jobs.status = CAST(:status AS text))
    AND (CAST(:target_id AS text) IS NULL OR fleet_jobs.target_id = CAST(:target_id AS text)
        OR fleet_jobs.identity_id = CAST(:target_id AS text))
    ORDER BY fleet_jobs.id DESC LIMIT :count"""
_OF_READER: LiteralString = (
    visibility.SEEN_GROUPS
    + " SELECT "
    + FLEET_JOBS.columns
    + " FROM fleet_jobs WHERE fleet_jobs.group_id IN (SELECT id FROM seen_groups)"
    + _FILTERS
)
_OF_ORGANIZATION: LiteralString = "SELECT " + FLEET_JOBS.columns + " FROM fleet_jobs WHERE true" + _FILTERS


class FleetJobFilter(msgspec.Struct, frozen=True):
    """Which jobs to list; None stands for all of them."""

    type: FleetJobType | None = None
    status: FleetJobStatus | None = None
    target_id: str | None = None
    """A runner, or an identity with the jobs of the runners that are deployed through it."""


async def listing(
    tx: Tx, seen: Visible, organization_id: str, wanted: FleetJobFilter, before: str, count: int
) -> list[FleetJob]:
    """Return jobs that the reader may see, the newest first."""
    given: dict[str, Param] = {
        "organization_id": organization_id,
        "before": before or NEWEST_FLEET_JOB_ID,
        "type": wanted.type and wanted.type.value,
        "status": wanted.status and wanted.status.value,
        "target_id": wanted.target_id,
        "count": count,
    }
    if seen.is_everything(organization_id):
        return rows_to(FleetJob, await tx.all(_OF_ORGANIZATION, **given))
    return rows_to(FleetJob, await tx.all(_OF_READER, **given, **visibility.params(seen)))


async def some(tx: Tx, job_ids: Iterable[str]) -> dict[str, FleetJob]:
    """Return these jobs by their ids. Those that were deleted are left out."""
    rows = await tx.each(
        "SELECT " + FLEET_JOBS.columns + " FROM batch JOIN fleet_jobs ON fleet_jobs.id = batch.wanted",
        {"wanted": "text"},
        [(each,) for each in sorted(job_ids)],
    )
    return {each.id: each for each in rows_to(FleetJob, rows)}


async def newest(tx: Tx, target_id: str, *types: FleetJobType) -> FleetJob | None:
    """Return the newest job of a target; of one of these types, if any are named."""
    for before in await tx.all(
        "SELECT " + FLEET_JOBS.columns + " FROM fleet_jobs WHERE target_id = :target_id ORDER BY id DESC LIMIT 50",
        target_id=target_id,
    ):
        job = row_to(FleetJob, before)
        if not types or job.type in types:
            return job
    return None


async def steps(tx: Tx, job_id: str, attempt: int) -> list[FleetStep]:
    """Return the steps of an attempt in their order."""
    return await FLEET_STEPS.all(
        tx,
        "FROM fleet_steps WHERE job_id = :job_id AND attempt = :attempt ORDER BY position, name",
        job_id=job_id,
        attempt=attempt,
    )


async def last_lines(tx: Tx, job_id: str, count: int) -> list[FleetLine]:
    """Return the last lines of all attempts, in their order."""
    rows = await tx.all(
        "SELECT " + FLEET_LOG.columns + " FROM fleet_log WHERE job_id = :job_id"
        " ORDER BY attempt DESC, number DESC LIMIT :count",
        job_id=job_id,
        count=count,
    )
    return rows_to(FleetLine, reversed(rows))


async def lines(tx: Tx, job_id: str, attempt: int, since: int, count: int) -> list[FleetLine]:
    """Return lines of all attempts that follow line `since` of `attempt`, in their order."""
    return await FLEET_LOG.all(
        tx,
        "FROM fleet_log WHERE job_id = :job_id AND (attempt > :attempt OR attempt = :attempt AND number > :since) "
        "ORDER BY attempt, number LIMIT :count",
        job_id=job_id,
        attempt=attempt,
        since=since,
        count=count,
    )
