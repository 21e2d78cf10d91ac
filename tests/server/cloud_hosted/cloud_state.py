"""Reads and changes what the tests of cloud-hosted runners look at."""

from terracrew.api.deployments import CloudInstance
from terracrew.server.connections import store as connections
from terracrew.server.deployments import reads, store
from terracrew.server.deployments.model import CloudDeployment
from tests.builders.job_rows import Instance, JobRows


async def instances(rows: JobRows, runner_id: str) -> list[CloudInstance]:
    return sorted(await rows.db.read(lambda tx: reads.instances(tx, runner_id)), key=lambda each: each.id)


async def deployment(rows: JobRows, runner_id: str) -> CloudDeployment:
    found = await rows.db.read(lambda tx: store.get(tx, runner_id))
    assert found is not None
    return found


async def disconnect(rows: JobRows, instance: Instance) -> None:
    await rows.db.write(lambda tx: connections.disconnect(tx, instance.runner_id, instance.id, 1))


async def jobs(rows: JobRows, count: int) -> list[str]:
    return [await rows.job(await rows.module()) for _ in range(count)]
