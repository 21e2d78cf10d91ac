"""Reads where a job runs: its module and its runner, as policies see them."""

import msgspec

from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.mapping import row_to


class RunnerOfJob(msgspec.Struct, frozen=True):
    path: str
    name: str
    tags: list[str]


class ModuleOfJob(msgspec.Struct, frozen=True):
    path: str
    name: str
    engine: str
    labels: list[str]
    tags: list[str]


async def runner(tx: Tx, job_id: str) -> RunnerOfJob | None:
    """Return the runner that a job is given to; None if it is given to none."""
    row = await tx.one(
        "SELECT runners.path, runners.name, runners.tags FROM jobs JOIN runners ON runners.id = jobs.runner_id"
        " WHERE jobs.id = :id",
        id=job_id,
    )
    return None if row is None else row_to(RunnerOfJob, row)


async def module(tx: Tx, job_id: str) -> ModuleOfJob | None:
    """Return the module of a job; None if there is no such job any more."""
    row = await tx.one(
        "SELECT modules.path, modules.name, modules.engine, modules.labels, modules.tags FROM jobs"
        " JOIN modules ON modules.id = jobs.module_id WHERE jobs.id = :id",
        id=job_id,
    )
    return None if row is None else row_to(ModuleOfJob, row)
