"""Runners that are connected or have a job."""

from typing import Any

from terracrew import ids
from terracrew.server.db.seam import Tx
from tests.server.application import Application


async def connect(world: Application, runner_id: str, name: str, **changes: Any) -> str:
    made = ids.new("ins")

    async def work(tx: Tx) -> None:
        values: dict[str, Any] = {"heard": tx.now, "version": "0.1.0", "is_connected": True, "is_draining": False}
        await tx.run(
            """INSERT INTO instances (id, runner_id, name, key_sha256, epoch, version, capacity, engines, is_connected,
                                      is_draining, connected_at, disconnected_at, heard_at)
               VALUES (:id, :runner_id, :name, 'x', 1, :version, 4, '{"tofu": "1.12.6"}', :is_connected, :is_draining,
                       :now, :disconnected_at, :heard)""",
            id=made,
            runner_id=runner_id,
            name=name,
            now=tx.now,
            disconnected_at=None if changes.get("is_connected", True) else tx.now,
            **(values | changes),
        )

    await world.server.db.write(work)
    return made


async def having_a_job(world: Application, runner_id: str, instance: str) -> str:
    module = await world.admin.made(
        "/api/v1/modules", {"path": "m", "source": {"kind": "local", "path": "/srv/sources"}}
    )
    made = ids.new("job")

    async def work(tx: Tx) -> None:
        await tx.run(
            """INSERT INTO jobs (id, organization_id, module_id, number, type, status, runner_id, instance_id, source,
                                 created_by, created_at, queued_at)
               VALUES (:id, :organization_id, :module_id, 17, 'PLAN', 'PROCESSING', :runner_id, :instance_id,
                       '{"kind": "local", "path": "/srv/sources"}', 'test', :now, :now)""",
            id=made,
            organization_id=world.server.organization_id,
            module_id=module["id"],
            runner_id=runner_id,
            instance_id=instance,
            now=tx.now,
        )
        await tx.run(
            """INSERT INTO attempts (job_id, number, runner_id, instance_id, hub_sha256, api_sha256, state_key, claimed_at)
               VALUES (:id, 1, :runner_id, :instance_id, 'h', 'a', :key, :now)""",
            id=made,
            runner_id=runner_id,
            instance_id=instance,
            key=b"k",
            now=tx.now,
        )

    await world.server.db.write(work)
    return made
