"""Connects instances of runners, and gives a runner a job."""

from terracrew.server.db.seam import Param
from tests.builders.job_rows import Instance, JobRows, change_jobs, insert_instance
from tests.server.application import Application


async def connect(application: Application, runner_id: str, name: str, **changes: Param) -> str:
    values: dict[str, Param] = {"name": name, "version": "0.1.0", "engines": '{"tofu": "1.12.6"}'} | changes
    return await application.server.db.write(lambda tx: insert_instance(tx, runner_id, **values))


async def having_a_job(application: Application, runner_id: str, instance_id: str) -> str:
    """Let a runner that serves every module have job 17."""
    rows = await JobRows.of_organization(application.server.db, application.server.organization_id)
    job_id = await rows.job(await rows.module("m"))
    await change_jobs(rows.db, number=17)
    await Instance(rows, runner_id, instance_id).start(job_id)
    return job_id
