"""Rows of the runs of groups and of their modules."""

from collections.abc import Sequence

from terracrew.api.group_runs import GroupRun
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import ENDED_STATUSES
from terracrew.server.db.statements.mapping import to_params
from terracrew.server.db.statements.table import Table, batch_assignments, values
from terracrew.server.group_runs.model import RunModule

RUNS = Table("group_runs", GroupRun)
MODULES = Table("group_run_modules", RunModule)
NEWEST_ID = "grn_zzzz"
"""Sorts after the id of every run."""
_CHANGED = ("status", "job_id", "message")


async def insert(tx: Tx, run: GroupRun, modules: Sequence[RunModule]) -> None:
    await tx.run(RUNS.insert(), **to_params(run))
    await insert_modules(tx, modules)


async def insert_modules(tx: Tx, modules: Sequence[RunModule]) -> None:
    await tx.each(
        MODULES.insert_batch(*MODULES.fields),
        MODULES.types,
        [values(each) for each in sorted(modules, key=lambda each: each.module_id)],
    )


async def save(tx: Tx, before: GroupRun, after: GroupRun) -> None:
    """Write the status of a run that the transaction holds."""
    if before != after:
        await tx.run(
            """UPDATE group_runs SET status = :status, started_by = :started_by, started_by_name = :started_by_name,
                finished_at = :finished_at WHERE id = :id""",
            **to_params(after, "id", "status", "started_by", "started_by_name", "finished_at"),
        )


async def save_modules(tx: Tx, modules: Sequence[RunModule]) -> None:
    """Write what has become of modules of a run that the transaction holds."""
    await tx.each(
        f"""UPDATE group_run_modules SET {batch_assignments(*_CHANGED)} FROM batch
        WHERE group_run_modules.run_id = batch.run_id AND group_run_modules.module_id = batch.module_id
        RETURNING group_run_modules.module_id""",
        MODULES.types_of("run_id", "module_id", *_CHANGED),
        [values(each, "run_id", "module_id", *_CHANGED) for each in sorted(modules, key=lambda each: each.module_id)],
    )


async def delete_modules(tx: Tx, run_id: str) -> None:
    await tx.run("DELETE FROM group_run_modules WHERE run_id = :run_id", run_id=run_id)


async def prune(tx: Tx, group_id: str, kept: int) -> None:
    """Delete the oldest ended runs of a group, except the `kept` newest ones."""
    rows = await tx.all(
        """SELECT id FROM group_runs WHERE group_id = :group_id AND status <> 'RUNNING'
        ORDER BY id DESC LIMIT 1000 OFFSET :kept""",
        group_id=group_id,
        kept=kept,
    )
    old = sorted((row["id"],) for row in rows)
    if old:
        await tx.each("DELETE FROM group_run_modules WHERE run_id IN (SELECT id FROM batch)", {"id": "text"}, old)
        await tx.each("DELETE FROM group_runs WHERE id IN (SELECT id FROM batch)", {"id": "text"}, old)


async def get(tx: Tx, run_id: str) -> GroupRun | None:
    return await RUNS.find(tx, id=run_id)


async def hold(tx: Tx, run_id: str) -> GroupRun | None:
    """Read a run and lock its row until the transaction ends. Its modules are written only by who holds it."""
    return await RUNS.hold(tx, id=run_id)


async def is_open_for(tx: Tx, module_id: str) -> bool:
    """Return whether a run that goes on still has something to do with a module."""
    sql = "SELECT 1 AS found FROM group_run_modules WHERE module_id = :id AND status IN ('WAITING', 'RUNNING') LIMIT 1"
    return await tx.one(sql, id=module_id) is not None


async def modules(tx: Tx, run_id: str) -> list[RunModule]:
    """Return the modules of a run in their order."""
    return await MODULES.all(tx, "FROM group_run_modules WHERE run_id = :run_id ORDER BY position, path", run_id=run_id)


async def page(tx: Tx, group_id: str, before: str, count: int) -> list[GroupRun]:
    """Return runs of a group, the newest first."""
    return await RUNS.all(
        tx,
        "FROM group_runs WHERE group_id = :group_id AND id < :before ORDER BY id DESC LIMIT :count",
        group_id=group_id,
        before=before or NEWEST_ID,
        count=count,
    )


async def running(tx: Tx, organization_id: str) -> list[GroupRun]:
    """Return the runs of an organization that have not ended."""
    return await RUNS.all(
        tx, "FROM group_runs WHERE organization_id = :id AND status = 'RUNNING' ORDER BY id", id=organization_id
    )


async def has_running(tx: Tx) -> bool:
    """Return whether any run has not ended."""
    return await tx.one("SELECT id FROM group_runs WHERE status = 'RUNNING' LIMIT 1") is not None


async def due(tx: Tx, count: int) -> list[str]:
    """Return the runs in which something follows: a job has ended, or none runs."""
    rows = await tx.all(
        f"""SELECT group_runs.id FROM group_runs WHERE group_runs.status = 'RUNNING' AND (
            NOT EXISTS (SELECT 1 FROM group_run_modules
                WHERE group_run_modules.run_id = group_runs.id AND group_run_modules.status = 'RUNNING')
            OR EXISTS (SELECT 1 FROM group_run_modules LEFT JOIN jobs ON jobs.id = group_run_modules.job_id
                WHERE group_run_modules.run_id = group_runs.id AND group_run_modules.status = 'RUNNING'
                    AND (jobs.id IS NULL OR jobs.status IN {ENDED_STATUSES})))
        ORDER BY group_runs.id LIMIT :count""",
        count=count,
    )
    return [row["id"] for row in rows]
