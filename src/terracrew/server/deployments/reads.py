"""Reads about deployments: for pages, for the scheduler, and for the loop that starts instances."""

from collections.abc import Collection
from datetime import datetime

import msgspec

from terracrew.api.deployments import CloudInstance
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import ACTIVE_STATUSES
from terracrew.server.db.statements.mapping import row_to, rows_to
from terracrew.server.deployments.model import CloudDeployment
from terracrew.server.deployments.store import CLOUD_INSTANCES, DEPLOYMENTS


async def has_any(tx: Tx) -> bool:
    """Return whether there is a cloud-hosted runner at all."""
    return await tx.one("SELECT runner_id FROM cloud_deployments LIMIT 1") is not None


async def many(tx: Tx, runner_ids: Collection[str]) -> dict[str, CloudDeployment]:
    """Return the deployments of these runners; a runner without one is left out."""
    rows = await tx.each_id(
        "SELECT "
        + DEPLOYMENTS.columns
        + " FROM batch JOIN cloud_deployments ON cloud_deployments.runner_id = batch.id",
        sorted(runner_ids),
    )
    return {each.runner_id: each for each in rows_to(CloudDeployment, rows)}


async def live_of(tx: Tx, runner_ids: Collection[str]) -> dict[str, list[CloudInstance]]:
    """Return the instances of these runners that have not ended, the oldest first; a runner without one is left out."""
    rows = await tx.each_id(
        "SELECT "
        + CLOUD_INSTANCES.columns
        + """ FROM batch JOIN cloud_instances ON cloud_instances.runner_id = batch.id AND cloud_instances.status <> 'ended'
        ORDER BY cloud_instances.id""",
        sorted(runner_ids),
    )
    found: dict[str, list[CloudInstance]] = {}
    for each in rows_to(CloudInstance, rows):
        found.setdefault(each.runner_id, []).append(each)
    return found


async def instances(tx: Tx, runner_id: str) -> list[CloudInstance]:
    """Return the instances of a runner that live, and the last ones that ended, the newest first."""
    return await CLOUD_INSTANCES.all(tx, "FROM cloud_instances WHERE runner_id = :id ORDER BY id DESC", id=runner_id)


async def page(tx: Tx, after: str, count: int) -> list[CloudDeployment]:
    """Return the first `count` deployments after the runner with the id `after`."""
    return await DEPLOYMENTS.all(
        tx, "FROM cloud_deployments WHERE runner_id > :after ORDER BY runner_id LIMIT :count", after=after, count=count
    )


async def maker_of_open_plan(tx: Tx, job_id: str) -> str | None:
    """Return the cloud-hosted runner that made the plan with which a job waits for approval; None if there is none."""
    return await tx.value(
        """SELECT cloud_deployments.runner_id FROM jobs
        JOIN plans ON plans.job_id = jobs.id AND plans.attempt = jobs.plan_attempt
        JOIN attempts AS made ON made.job_id = plans.made_job_id AND made.number = plans.made_attempt
        JOIN cloud_deployments ON cloud_deployments.runner_id = made.runner_id
        WHERE jobs.id = :id AND jobs.status = 'AWAITING_APPROVAL'""",
        id=job_id,
    )


async def idle_since(tx: Tx, runner_id: str) -> float | None:
    """Return since when the instances of a runner have had no job; None if one of them has a job, or if none is connected."""
    row = await tx.one(
        f"""SELECT max(coalesce((SELECT max(attempts.ended_at) FROM attempts WHERE attempts.instance_id = instances.id),
            instances.connected_at)) AS since, max(CASE WHEN EXISTS (SELECT 1 FROM jobs WHERE jobs.instance_id = instances.id
                AND jobs.status IN {ACTIVE_STATUSES}) THEN 1 ELSE 0 END) AS is_busy
        FROM cloud_instances JOIN instances ON instances.runner_id = cloud_instances.runner_id
            AND instances.name = cloud_instances.name AND instances.is_connected AND NOT instances.is_leaving
        WHERE cloud_instances.runner_id = :id AND cloud_instances.status <> 'ended'""",
        id=runner_id,
    )
    return None if row is None or row["is_busy"] else row["since"]


async def of_identity(tx: Tx, identity_id: str) -> list[str]:
    """Return the runners (ids) that were deployed with an identity."""
    rows = await tx.all(
        "SELECT runner_id FROM cloud_deployments WHERE identity_id = :id ORDER BY runner_id", id=identity_id
    )
    return [row["runner_id"] for row in rows]


class Activity(msgspec.Struct, frozen=True):
    """Which runners need attention now. While all of them sleep, nothing is in it."""

    awake: tuple[str, ...] = ()
    """Those with an instance that has not ended."""
    retries: tuple[str, ...] = ()
    """Those whose back-off after a refusal is over."""
    next_retry_at: float | None = None
    """When the next back-off is over."""
    at: float = 0.0
    """When this was so, by the database's clock."""


async def activity(tx: Tx) -> Activity:
    """Return which runners need attention. The indexes that this reads have no entry of a runner that sleeps."""
    awake = await tx.all("SELECT DISTINCT runner_id FROM cloud_instances WHERE status <> 'ended' ORDER BY runner_id")
    refused = await tx.all(
        "SELECT runner_id, retry_at FROM cloud_deployments WHERE retry_at IS NOT NULL ORDER BY retry_at LIMIT 100"
    )
    due = tuple(row["runner_id"] for row in refused if row["retry_at"] <= tx.now)
    later = [row["retry_at"] for row in refused if row["retry_at"] > tx.now]
    return Activity(tuple(row["runner_id"] for row in awake), due, min(later, default=None), tx.now)


async def ended_since(tx: Tx, since: float) -> list[str]:
    """Return the runners (ids) of which an instance has ended since this time."""
    rows = await tx.all(
        "SELECT DISTINCT runner_id FROM cloud_instances WHERE status = 'ended' AND ended_at > :since ORDER BY runner_id",
        since=since,
    )
    return [row["runner_id"] for row in rows]


class InstancePresence(msgspec.Struct, frozen=True):
    """What the connection of an instance says, beside its row."""

    runner_id: str
    name: str
    instance_id: str
    is_connected: bool
    is_leaving: bool
    is_retired: bool
    """Whether its process was asked to end after its last job."""
    connected_at: datetime
    disconnected_at: datetime | None


async def presence(tx: Tx, runner_ids: Collection[str]) -> dict[str, dict[str, InstancePresence]]:
    """Return the processes that said hello as instances of these runners which have not ended, by runner and by name."""
    rows = await tx.each_id(
        """SELECT instances.runner_id, instances.name, instances.id AS instance_id, instances.is_connected, instances.is_leaving,
            instances.retire_reason <> '' AS is_retired, instances.connected_at, instances.disconnected_at
        FROM batch JOIN cloud_instances ON cloud_instances.runner_id = batch.id AND cloud_instances.status <> 'ended'
        JOIN instances ON instances.runner_id = cloud_instances.runner_id AND instances.name = cloud_instances.name""",
        sorted(runner_ids),
    )
    found: dict[str, dict[str, InstancePresence]] = {each: {} for each in runner_ids}
    for each in rows_to(InstancePresence, rows):
        found[each.runner_id][each.name] = each
    return found


async def connected_names(tx: Tx, runner_id: str) -> set[str]:
    """Return the names of all connected instances of a runner, whoever started them."""
    rows = await tx.all(
        """SELECT instances.name FROM cloud_deployments JOIN instances ON instances.runner_id = cloud_deployments.runner_id
        WHERE cloud_deployments.runner_id = :id AND instances.is_connected""",
        id=runner_id,
    )
    return {row["name"] for row in rows}


class ProofInstance(msgspec.Struct, frozen=True):
    """What the process of the instance that proves a deployment has said."""

    instance_id: str
    version: str
    is_connected: bool
    connected_at: datetime
    is_on_trial: bool
    trial_passed: bool | None
    """None until it has reported how its no-op job ended."""
    trial_words: str


async def proof(tx: Tx, runner_id: str, name: str) -> ProofInstance | None:
    """Return what an instance of a cloud-hosted runner has said about itself; None if it has not said hello."""
    row = await tx.one(
        """SELECT instances.id AS instance_id, instances.version, instances.is_connected, instances.connected_at,
            instances.is_on_trial, instances.trial_passed, instances.trial_words
        FROM cloud_deployments JOIN instances ON instances.runner_id = cloud_deployments.runner_id
        WHERE cloud_deployments.runner_id = :id AND instances.name = :name""",
        id=runner_id,
        name=name,
    )
    return None if row is None else row_to(ProofInstance, row)


async def spared_names(tx: Tx, runner_id: str, since: float) -> set[str]:
    """Return the names of the instances of a runner that nobody may stop, whoever started them.

    These are the connected ones, those that have lost their connection after `since`, and those with a job that has not ended or of
    which that is not known: the process, or the executor of the job, may be in contact again in a moment.
    """
    rows = await tx.all(
        """SELECT instances.name FROM cloud_deployments JOIN instances ON instances.runner_id = cloud_deployments.runner_id
        WHERE cloud_deployments.runner_id = :id AND (instances.is_connected OR instances.disconnected_at > :since
            OR instances.id IN (SELECT instance_id FROM attempts WHERE ended_at IS NULL
                UNION SELECT instance_id FROM attempts WHERE is_in_doubt))""",
        id=runner_id,
        since=since,
    )
    return {row["name"] for row in rows}
