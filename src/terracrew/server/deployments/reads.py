"""Reads about deployments: for pages, for the scheduler, and for the loop that starts instances."""

from collections.abc import Collection

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import rows_to
from terracrew.server.deployments.model import CloudDeployment, CloudInstance
from terracrew.server.deployments.store import CLOUD_INSTANCES, DEPLOYMENTS


async def has_any(tx: Tx) -> bool:
    """Return whether there is a cloud-hosted runner at all."""
    return await tx.one("SELECT runner_id FROM cloud_deployments LIMIT 1") is not None


async def many(tx: Tx, runner_ids: Collection[str]) -> dict[str, CloudDeployment]:
    """Return the deployments of these runners; a runner without one is left out."""
    rows = await tx.each(
        "SELECT "
        + DEPLOYMENTS.columns
        + " FROM batch JOIN cloud_deployments ON cloud_deployments.runner_id = batch.id",
        {"id": "text"},
        [(each,) for each in sorted(runner_ids)],
    )
    return {each.runner_id: each for each in rows_to(CloudDeployment, rows)}


async def live_of(tx: Tx, runner_ids: Collection[str]) -> dict[str, list[CloudInstance]]:
    """Return the instances of these runners that have not ended, the oldest first; a runner without one is left out."""
    rows = await tx.each(
        "SELECT "
        + CLOUD_INSTANCES.columns
        + """ FROM batch JOIN cloud_instances ON cloud_instances.runner_id = batch.id AND cloud_instances.status <> 'ended'
        ORDER BY cloud_instances.id""",
        {"id": "text"},
        [(each,) for each in sorted(runner_ids)],
    )
    found: dict[str, list[CloudInstance]] = {}
    for each in rows_to(CloudInstance, rows):
        found.setdefault(each.runner_id, []).append(each)
    return found


async def instances(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Return the instances of a runner that live, and the last ones that ended, the newest first."""
    rows = await tx.all(
        "SELECT " + CLOUD_INSTANCES.columns + " FROM cloud_instances WHERE runner_id = :id ORDER BY id DESC",
        id=runner_id,
    )
    return rows_to(CloudInstance, rows)


async def of_identity(tx: Tx, identity_id: str) -> list[str]:
    """Return the runners (ids) that were deployed with an identity."""
    rows = await tx.all(
        "SELECT runner_id FROM cloud_deployments WHERE identity_id = :id ORDER BY runner_id", id=identity_id
    )
    return [row["runner_id"] for row in rows]


async def awake(tx: Tx) -> list[str]:
    """Return the runners (ids) with an instance that has not ended."""
    rows = await tx.all("SELECT DISTINCT runner_id FROM cloud_instances WHERE status <> 'ended' ORDER BY runner_id")
    return [row["runner_id"] for row in rows]


async def due_retries(tx: Tx) -> list[str]:
    """Return the runners (ids) whose back-off after a refusal is over."""
    rows = await tx.all("SELECT runner_id FROM cloud_deployments WHERE retry_at <= :now ORDER BY runner_id", now=tx.now)
    return [row["runner_id"] for row in rows]
