"""The list of what a job may have lost, page by page."""

from terracrew.api.jobs import Job
from terracrew.api.lost_resources import LogGap, LostResources
from terracrew.errors import NotFound
from terracrew.server import paging
from terracrew.server.db.seam import Database, Row, Tx
from terracrew.server.jobs import service
from terracrew.server.jobs.lost_resources import compare, gaps, search, store
from terracrew.server.jobs.lost_resources.model import StoredChange, UnreportedChange
from terracrew.server.objects import Objects
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import instance_ids


async def read(
    db: Database, objects: Objects, keys: Keyring, who: Principal, name: str, after: str | None, limit: int
) -> LostResources:
    """Return a page of what a job may have lost. A page can be shorter than its limit: what the state records is left out."""

    async def find(tx: Tx) -> tuple[Job, Row]:
        job = await service.find(tx, who, name, Verb.JOB_READ)
        module = await store.module_facts(tx, job.id)
        if module is None:  # it was deleted at this moment
            raise NotFound(f"there is no job {name}")
        return job, module

    job, module = await db.read(find)
    start = _start(after)
    await search.search_now(db, objects, keys, job.module_id)

    async def changes(tx: Tx) -> tuple[list[LogGap], list[StoredChange | UnreportedChange]]:
        logs = await store.cut_logs(tx, job.id)
        planned = [each for each in await gaps.unreported(tx, logs) if (each.attempt, each.number) > start]
        found = [*await store.of_job(tx, job.id, start, limit + 1), *planned]
        return [gaps.of_log(each) for each in logs], sorted(found, key=lambda each: (each.attempt, each.number))

    unknown, rows = await db.read(changes)
    if not rows:
        return LostResources([], is_complete=not unknown, gaps=unknown)
    is_kept_here = module["backend"] == "terracrew"
    state = await instance_ids.current(db, objects, keys, job.module_id, is_kept_here=is_kept_here)
    found = paging.page(rows, limit)
    items = [each for row in found.items if (each := compare.lost(row, state, module["engine"]))]
    return LostResources(items, found.next, None if state is None else state.version, not unknown, unknown)


def _start(after: str | None) -> tuple[int, int]:
    """Return the attempt and the number that a cursor stands for."""
    attempt, _, number = (paging.start(after) or "0.0").partition(".")
    if not (attempt.isdigit() and number.isdigit() and len(attempt) < 16 and len(number) < 16):
        raise paging.not_a_cursor(after)
    return int(attempt), int(number)
