"""Asks a connected instance for an update, as a fleet job does, without a fleet job that runs."""

from terracrew import ids
from terracrew.api.fleet_jobs import FleetJobType, NewFleetJob
from terracrew.server.db.seam import Tx
from terracrew.server.fleet_jobs import service
from terracrew.server.principals.model import SYSTEM
from terracrew.server.runner_updates import store
from terracrew.server.runner_updates.model import InstanceUpdate
from tests.server.hub.hub_clients import Hub


async def asked(hub: Hub) -> InstanceUpdate:
    """Return the new update of the only connected instance. Its fleet job has ended already, so that no loop goes on with it."""
    instance_id = hub.session().instance_id
    new = NewFleetJob(
        type=FleetJobType.UPDATE_WORKER,
        organization_id=hub.crew.rows.organization,
        group_id=hub.crew.rows.root,
        target_id=ids.new("rnr"),
        target_name="crew",
        identity_id="",
    )

    async def work(tx: Tx) -> InstanceUpdate:
        job = await service.create(tx, SYSTEM, new)
        await service.cancel(tx, SYSTEM, job.id, {})
        update = InstanceUpdate(
            id=ids.new("upd"),
            instance_id=instance_id,
            runner_id=hub.runner_id,
            job_id=job.id,
            version="0.2.0",
            asked_at=job.created_at,
            changed_at=job.created_at,
        )
        await store.insert(tx, update)
        return update

    return await hub.server.db.write(work)
