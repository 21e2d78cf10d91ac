"""Builds the rows of cloud-hosted runners."""

from typing import Any

from terracrew import ids
from terracrew.clouds.model import DeploymentSettings
from terracrew.server.deployments import store
from terracrew.server.deployments.model import CloudDeployment, DeploymentStatus
from terracrew.testing.job_rows import JobRows


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
        identity_id="cid_" + "0" * 32,
        settings=DeploymentSettings(**settings),
        status=status,
    )
    await rows.db.write(lambda tx: store.insert(tx, deployment))
    return runner_id
