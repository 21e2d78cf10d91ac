"""What fleet jobs make of a cloud-hosted runner that was deployed on a page, without a cloud."""

from typing import Any

import msgspec

from terracrew.api.fleet_jobs import FleetJobStatus, FleetStep
from terracrew.server.db.seam import Database, Tx
from terracrew.server.deployments import store
from terracrew.server.fleet_jobs import store as fleet_store

ROLE = "arn:aws:iam::123456789012:role/terracrew-burst-task"


async def change(db: Database, runner_id: str, **changes: Any) -> None:
    """Change the row of a deployment."""

    async def work(tx: Tx) -> None:
        before = await store.hold(tx, runner_id)
        assert before is not None
        await store.save(tx, before, msgspec.structs.replace(before, **changes))

    await db.write(work)


async def run_job(db: Database, runner_id: str) -> None:
    """Let the open job of a runner run, and make one thing."""

    async def work(tx: Tx) -> None:
        [before] = await fleet_store.open_of_target(tx, runner_id)
        now = tx.moment
        claimed = before.to(FleetJobStatus.CLAIMED, now, server_id="srv", lease_until=now, claimed_at=now)
        await fleet_store.save(tx, before, claimed)
        await fleet_store.save(tx, claimed, claimed.to(FleetJobStatus.PROCESSING, now, started_at=now))
        step = FleetStep(
            job_id=before.id,
            attempt=1,
            name="task_role",
            position=1,
            words="Task role",
            status="done",
            reference=ROLE,
            started_at=now,
            finished_at=now,
        )
        await fleet_store.put_steps(tx, [step])

    await db.write(work)


async def end_job(db: Database, runner_id: str, status: FleetJobStatus, error: str = "") -> None:
    """Let the job of a runner that runs end."""

    async def work(tx: Tx) -> None:
        [running] = await fleet_store.open_of_target(tx, runner_id)
        await fleet_store.save(tx, running, running.to(status, tx.moment, error=error))

    await db.write(work)


async def deploy(db: Database, runner_id: str) -> None:
    """Let the open deployment of a runner succeed."""
    await run_job(db, runner_id)
    await end_job(db, runner_id, FleetJobStatus.SUCCEEDED)
    await change(db, runner_id, status="deployed", facts={"task_role": ROLE})
