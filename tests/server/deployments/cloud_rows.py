"""Builds the rows of cloud-hosted runners."""

from typing import Any

from terracrew import ids
from terracrew.api.deployments import DeploymentSettings, DeploymentStatus
from terracrew.clouds.model import AwsAccount
from terracrew.server.cloud_identities import store as identities
from terracrew.server.cloud_identities.model import IdentityRecord
from terracrew.server.db.seam import Tx
from terracrew.server.deployments import store
from terracrew.server.deployments.model import CloudDeployment
from tests.builders.job_rows import JobRows, insert


async def identity(rows: JobRows) -> str:
    """Insert a cloud identity of the organization, unless there is one. Returns its id."""
    identity_id = ids.of_name("cid", rows.organization)

    async def work(tx: Tx) -> None:
        if await identities.find(tx, identity_id) is None:
            await identities.insert(
                tx,
                IdentityRecord(
                    id=identity_id,
                    organization_id=rows.organization,
                    group_id=rows.root,
                    group="",
                    name="aws",
                    description="",
                    kind="aws",
                    settings=AwsAccount(role_arn="arn:aws:iam::123456789012:role/fleet", region="eu-central-1"),
                    external_id=identity_id,
                    subject=identity_id,
                    audience="sts.amazonaws.com",
                    created_by="test",
                    created_at=tx.moment,
                ),
            )

    await rows.db.write(work)
    return identity_id


async def cloud_runner(
    rows: JobRows,
    place_id: str | None = None,
    path: str = "",
    status: DeploymentStatus = "deployed",
    tags: str = "[]",
    **settings: Any,
) -> str:
    """Insert a cloud-hosted runner that is assigned to a group (the root by default), and its deployment. Returns its id."""
    runner_id = ids.new("rnr")
    names = {"id": runner_id, "name": runner_id, "path": runner_id, "type": "cloud-hosted", "region": "eu-central-1"}
    of = {"allow_multiple_instances": True, "tags": tags}
    await rows.insert("runners", group_id=rows.root, max_jobs=100, **names, **of)
    await rows.insert("assignments", runner_id=runner_id, place_id=place_id or rows.root, kind="group", path=path)
    deployment = CloudDeployment(
        runner_id=runner_id,
        identity_id=await identity(rows),
        settings=DeploymentSettings(**settings),
        status=status,
    )
    await rows.db.write(lambda tx: store.insert(tx, deployment))
    return runner_id


async def cloud_runners(rows: JobRows, count: int) -> None:
    """Insert many cloud-hosted runners that sleep, all in one transaction."""
    identity_id = await identity(rows)

    async def work(tx: Tx) -> None:
        for _ in range(count):
            runner_id = ids.new("rnr")
            names = {"id": runner_id, "name": runner_id, "path": runner_id, "type": "cloud-hosted"}
            of = {"organization_id": rows.organization, "created_at": tx.now}
            await insert(tx, "runners", group_id=rows.root, max_jobs=100, allow_multiple_instances=True, **names, **of)
            place = {"place_id": rows.root, "kind": "group", "path": ""}
            await insert(tx, "assignments", runner_id=runner_id, **place, **of)
            deployment = CloudDeployment(
                runner_id=runner_id, identity_id=identity_id, settings=DeploymentSettings(), status="deployed"
            )
            await store.insert(tx, deployment)

    await rows.db.write(work)
