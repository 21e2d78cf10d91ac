"""A plan that waits for approval wakes its sleeping runner once, when somebody opens it who may approve it."""

import pytest

from terracrew.server.deployments import reads
from tests.builders.deliveries import delivery
from tests.builders.job_rows import JobRows, begin_code, change_jobs
from tests.server.application import Application
from tests.server.deployments.cloud_rows import cloud_runner
from tests.server.jobs.waiting_jobs import waiting

pytestmark = pytest.mark.feature("W3.scale")


async def waiting_plan(rows: JobRows, runner_id: str) -> str:
    """Let a runner make a plan that waits for approval, and fall asleep. Returns the id of the job."""
    instance = await rows.instance_of(runner_id, name=f"maker-{runner_id}")
    job_id = await rows.job(await rows.module(), kind="APPLY")
    await change_jobs(rows.db, job_id, needs_approval=True)
    ref = await instance.start(job_id)
    assert await begin_code(rows.db, ref, 0) == "approval"
    await rows.take(delivery(ref, 2, waiting()))
    await instance.disconnect()
    return job_id


async def wanted(application: Application, runner_id: str) -> int:
    await application.server.tasks.join()
    return len(await application.server.db.read(lambda tx: reads.instances(tx, runner_id)))


async def rows_of(application: Application) -> JobRows:
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    rows.claim, rows.take = application.server.claiming.claim, application.server.ingest
    return rows


async def test_whoever_may_approve_wakes_the_runner_once(application: Application) -> None:
    rows = await rows_of(application)
    runner_id = await cloud_runner(rows, wakes_ahead=True)
    job_id = await waiting_plan(rows, runner_id)
    viewer = await application.person("vera", "viewer")
    assert (await viewer.get(f"/api/v1/jobs/{job_id}")).status_code == 200
    assert await wanted(application, runner_id) == 0, "a viewer does not spend money"
    for _ in range(3):
        assert (await application.admin.get(f"/dashboard/jobs/{job_id}")).status_code == 200
        assert (await application.admin.get(f"/api/v1/jobs/{job_id}")).json()["status"] == "AWAITING_APPROVAL"
    assert await wanted(application, runner_id) == 1


async def test_a_runner_that_is_not_to_be_woken_ahead_sleeps_on(application: Application) -> None:
    rows = await rows_of(application)
    runner_id = await cloud_runner(rows)
    job_id = await waiting_plan(rows, runner_id)
    await application.admin.get(f"/api/v1/jobs/{job_id}")
    assert await wanted(application, runner_id) == 0


async def test_the_page_of_a_job_says_how_long_the_start_of_its_runner_takes_so_far(application: Application) -> None:
    rows = await rows_of(application)
    runner_id = await cloud_runner(rows)
    job_id = await rows.job(await rows.module())
    await application.admin.post(f"/api/v1/runners/{runner_id}/wake")
    page = (await application.admin.get(f"/dashboard/jobs/{job_id}")).text
    assert "Starting a cloud-hosted runner: about 45 s." in page
    assert "so far." in page
    assert f"/dashboard/runners/{runner_id}" in page
