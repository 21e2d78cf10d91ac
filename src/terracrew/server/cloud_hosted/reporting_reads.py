"""Reads who owns things in accounts: runners that exist, and those that were removed."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from terracrew.server.db.seam import Columns, Tx
from terracrew.server.db.statements.mapping import rows_to

_COLUMNS: Columns = {"id": "text", "organization_id": "text"}


class KnownRunner(msgspec.Struct, frozen=True):
    """A runner of an organization, by the id that marks have."""

    id: str
    name: str
    identity_id: str | None = None
    """The identity that it is deployed with."""
    removed_at: datetime | None = None


async def owners(tx: Tx, organization_id: str, runner_ids: Collection[str]) -> dict[str, KnownRunner]:
    """Return the runners of an organization with these ids, also those that were removed. Those of others are left out."""
    wanted = [(each, organization_id) for each in sorted(runner_ids) if each]
    live = await tx.each(
        """SELECT runners.id, runners.path AS name, cloud_deployments.identity_id FROM batch
        JOIN runners ON runners.id = batch.id AND runners.organization_id = batch.organization_id
        LEFT JOIN cloud_deployments ON cloud_deployments.runner_id = runners.id""",
        _COLUMNS,
        wanted,
    )
    # A removed runner has no organization any more; the jobs that deployed it have.
    gone = await tx.each(
        """SELECT removed.id, removed.name, removed.removed_at FROM batch JOIN removed ON removed.id = batch.id
        WHERE EXISTS (SELECT 1 FROM fleet_jobs WHERE fleet_jobs.target_id = batch.id
            AND fleet_jobs.organization_id = batch.organization_id)""",
        _COLUMNS,
        wanted,
    )
    return {each.id: each for each in [*rows_to(KnownRunner, gone), *rows_to(KnownRunner, live)]}


async def job_numbers(tx: Tx, organization_id: str, job_ids: Collection[str]) -> dict[str, int]:
    """Return the numbers of the fleet jobs of an organization with these ids."""
    rows = await tx.each(
        """SELECT fleet_jobs.id, fleet_jobs.number FROM batch JOIN fleet_jobs ON fleet_jobs.id = batch.id
            AND fleet_jobs.organization_id = batch.organization_id""",
        _COLUMNS,
        [(each, organization_id) for each in sorted(job_ids) if each],
    )
    return {row["id"]: row["number"] for row in rows}
