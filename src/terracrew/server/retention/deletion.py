"""Removes what was kept for deleted modules, in small batches, so that nobody else waits for a large one.

Every batch is a transaction of its own, and the next one is found from the rows that are left, so this continues after a
restart. Two servers that do it at the same time delete each row once.
"""

from terracrew.errors import Conflict, Superseded
from terracrew.logging import get_logger
from terracrew.server.db.seam import Database, Tx
from terracrew.server.jobs import attempt_store, input_store
from terracrew.server.jobs import reads as job_reads
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs import store as job_store
from terracrew.server.jobs.lost_resources import store as lost_resource_store
from terracrew.server.jobs.plans import diff_store, json_store
from terracrew.server.jobs.plans import store as plan_store
from terracrew.server.logs import store as log_store
from terracrew.server.objects import Objects
from terracrew.server.retention import store
from terracrew.server.state import store as state_store
from terracrew.server.tree.modules import store as modules

BATCH_ROWS = 200
"""Rows that one statement deletes; fewer if they have more than `fragments.MAX_BATCH_BYTES` together."""
_MAX_JOBS = 50
_PAGE_ROWS = 100
log = get_logger("terracrew.server")


async def remove_deleted(db: Database) -> int:
    """Remove everything that was kept for deleted modules. Returns how many modules were removed completely."""
    count, after = 0, ""
    while module_id := await db.read(lambda tx, after=after: modules.next_deleted(tx, after)):
        if await _remove_module(db, module_id):
            count += 1
        after = module_id
    return count


async def _remove_module(db: Database, module_id: str) -> bool:
    """Remove one module. Returns False if one of its jobs has not ended yet, because it was queued just before the deletion."""
    is_waiting, after = False, ""
    while rows := await db.read(lambda tx, after=after: _jobs(tx, module_id, after)):
        for job_id, is_finished in rows:
            if is_finished:
                await _remove_job(db, job_id)
            else:
                await jobs.cancel_of_deleted_module(db, job_id)
                is_waiting = True
        after = rows[-1][0]
    while await db.write(lambda tx: _delete_states(tx, module_id)):
        pass
    if is_waiting:
        return False
    try:
        await db.write(lambda tx: modules.delete(tx, module_id))
    except Conflict:  # something was added meanwhile: the next pass finds it
        return False
    log.info("a deleted module is removed for good", module=module_id)
    return True


async def _jobs(tx: Tx, module_id: str, after: str) -> list[tuple[str, bool]]:
    rows = await job_reads.of_module(tx, module_id, after, _MAX_JOBS)
    return [(row["id"], bool(row["is_finished"])) for row in rows]


async def _remove_job(db: Database, job_id: str) -> None:
    await db.write(lambda tx: _delete_small_rows(tx, job_id))
    while await db.write(lambda tx: log_store.delete_batch(tx, job_id, BATCH_ROWS)):
        pass
    try:
        await db.write(lambda tx: job_store.delete(tx, job_id))
    except (Conflict, Superseded):
        return  # a delivery was being stored at that moment: the next pass removes it


async def _delete_small_rows(tx: Tx, job_id: str) -> None:
    """Delete everything of a job except the chunks of its log, which is a few rows for each attempt."""
    await attempt_store.delete_details(tx, job_id)  # first, in the order in which the ingest locks rows
    await input_store.delete_of_job(tx, job_id)
    await lost_resource_store.delete_of_job(tx, job_id)
    named = await log_store.delete_objects(tx, job_id)
    named += await state_store.delete_outputs(tx, job_id)
    named += await plan_store.delete_of_job(tx, job_id)
    named += await diff_store.delete_of_job(tx, job_id)
    named += await json_store.delete_of_job(tx, job_id)
    await store.delete_later(tx, named)


async def _delete_states(tx: Tx, module_id: str) -> int:
    """Delete the next states of a module, and return how many. The jobs of the module are gone, so none is added."""
    deleted = await state_store.delete_batch(tx, module_id, BATCH_ROWS)
    await store.delete_later(tx, [row["object"] for row in deleted if row["object"] is not None])
    return len(deleted)


async def delete_due(db: Database, objects: Objects, delay_seconds: float) -> int:
    """Delete the objects that have waited long enough, and return how many."""
    count = 0
    while True:
        names = await db.read(lambda tx: store.due_deletions(tx, tx.now - delay_seconds, _PAGE_ROWS))
        for name in names:
            await objects.delete(name)
        if names:
            await db.write(lambda tx, names=names: store.remove_deletions(tx, names))
        count += len(names)
        if len(names) < _PAGE_ROWS:
            return count
