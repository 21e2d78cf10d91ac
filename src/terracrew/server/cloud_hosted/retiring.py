"""Retires the instances of a cloud-hosted runner that were started with an earlier deployment than the present one.

They get no job any more, on any server, and their processes ask to leave as soon as they have none (`leaving`). Nobody ends one that has
a job. Scaling does not count them, so new ones are started for those that are always wanted, and for jobs that wait.
"""

from terracrew.server.connections import store as instances
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudDeployment, CloudInstance
from terracrew.server.deployments.reads import InstancePresence


def is_due(revision: int, row: CloudInstance, found: InstancePresence) -> bool:
    """Return whether an instance of a runner with this revision is to be retired, and does not know it."""
    return row.is_live and row.revision < revision and not found.is_retired


async def retire_older(tx: Tx, deployment: CloudDeployment) -> None:
    """Retire the instances of a deployment, which the transaction holds, that have said hello and are of an earlier revision."""
    live = [
        each for each in await store.live_instances(tx, deployment.runner_id) if each.revision < deployment.revision
    ]
    if not live:
        return
    present = (await reads.presence(tx, [deployment.runner_id]))[deployment.runner_id]
    due = [
        found.instance_id
        for each in live
        if (found := present.get(each.name)) is not None and is_due(deployment.revision, each, found)
    ]
    version = f": {deployment.version} was deployed" if deployment.version else ""
    await instances.retire(tx, deployment.runner_id, due, f"replaced by a newer deployment{version}")
