"""The rows of deployments and of their instances in the cloud."""

from collections.abc import Sequence
from typing import LiteralString

from terracrew.api.deployments import CloudInstance
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, assignments, values
from terracrew.server.deployments.model import CloudDeployment

DEPLOYMENTS = Table("cloud_deployments", CloudDeployment)
CLOUD_INSTANCES = Table("cloud_instances", CloudInstance)
MAX_KEPT_ENDED = 20
"""How many ended instances of a runner are kept, for people to see."""
_CHANGEABLE: tuple[LiteralString, ...] = tuple(field for field in DEPLOYMENTS.fields if field != "runner_id")
_INSTANCE_CHANGEABLE = (
    "status",
    "reference",
    "words",
    "asked_at",
    "started_at",
    "hello_at",
    "watched_at",
    "ended_at",
    "end_reason",
)


async def insert(tx: Tx, deployment: CloudDeployment) -> None:
    await tx.run(DEPLOYMENTS.insert(), **to_params(deployment))
    await _set_can_wake(tx, deployment)


async def get(tx: Tx, runner_id: str) -> CloudDeployment | None:
    return await DEPLOYMENTS.find(tx, runner_id=runner_id)


async def hold(tx: Tx, runner_id: str) -> CloudDeployment | None:
    """Read a deployment and lock its row until the transaction ends. Only who holds it changes its instances."""
    return await DEPLOYMENTS.hold(tx, runner_id=runner_id)


async def save(tx: Tx, before: CloudDeployment, after: CloudDeployment) -> None:
    """Write a deployment that the transaction holds. The runner's record says whether it can be woken."""
    if before == after:
        return
    await tx.run(
        f"UPDATE cloud_deployments SET {assignments(*_CHANGEABLE)} WHERE runner_id = :runner_id", **to_params(after)
    )
    await _set_can_wake(tx, after)


async def delete(tx: Tx, runner_id: str) -> None:
    """Delete a deployment and its instances. Its runner stays and cannot be woken."""
    await tx.run("DELETE FROM cloud_deployments WHERE runner_id = :id", id=runner_id)
    await _write_can_wake(tx, runner_id, can_wake=False)


async def live_instances(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Return the instances of a runner that have not ended, the oldest first."""
    return await CLOUD_INSTANCES.all(
        tx, "FROM cloud_instances WHERE runner_id = :id AND status <> 'ended' ORDER BY id", id=runner_id
    )


async def insert_instances(tx: Tx, instances: Sequence[CloudInstance]) -> None:
    """Write instances that are wanted, and forget the oldest ended ones of their runner. The transaction holds the deployment."""
    await tx.each(
        CLOUD_INSTANCES.insert_batch(*CLOUD_INSTANCES.fields),
        CLOUD_INSTANCES.types,
        [values(each) for each in sorted(instances, key=lambda each: each.id)],
    )
    for runner_id in sorted({each.runner_id for each in instances}):
        await tx.run(
            """DELETE FROM cloud_instances WHERE status = 'ended' AND runner_id = :id AND id NOT IN (
                SELECT id FROM cloud_instances WHERE runner_id = :id AND status = 'ended' ORDER BY ended_at DESC LIMIT :kept)""",
            id=runner_id,
            kept=MAX_KEPT_ENDED,
        )
        tx.wake("deployments", runner_id)


async def save_instance(tx: Tx, before: CloudInstance, after: CloudInstance) -> bool:
    """Write an instance by compare-and-set on its status. Returns False if it has another status by now."""
    if before == after:
        return True
    saved = await tx.run(
        f"UPDATE cloud_instances SET {assignments(*_INSTANCE_CHANGEABLE)} WHERE id = :id AND status = :was",
        was=before.status,
        **to_params(after, "id", *_INSTANCE_CHANGEABLE),
    )
    if saved and (before.status, before.words) != (after.status, after.words):
        tx.wake("deployments", after.runner_id)
    return bool(saved)


async def _set_can_wake(tx: Tx, deployment: CloudDeployment) -> None:
    await _write_can_wake(tx, deployment.runner_id, can_wake=deployment.can_wake(tx.moment))
    tx.wake("deployments", deployment.runner_id)


async def _write_can_wake(tx: Tx, runner_id: str, *, can_wake: bool) -> None:
    """Write whether a runner without an instance counts as available. The scheduler then looks at its jobs again."""
    if await tx.run(
        "UPDATE runners SET can_wake = :can_wake WHERE id = :id AND can_wake <> :can_wake",
        id=runner_id,
        can_wake=can_wake,
    ):
        tx.wake("assignments", runner_id)
        tx.wake("runners", runner_id)
