"""The diff of a job's plan: found, decrypted, and read a page at a time."""

import msgspec

from terracrew.api import fields
from terracrew.api.job_views import PlanDiff
from terracrew.api.jobs import CHOSEN, Job
from terracrew.plan_diff.document import DiffPage, DiffQuery
from terracrew.server import paging
from terracrew.server.db.seam import Database
from terracrew.server.jobs.plans import diff_store
from terracrew.server.jobs.plans import diff_store as diff_content
from terracrew.server.jobs.plans.diff_store import StoredDiff
from terracrew.server.objects import Objects
from terracrew.server.principals.model import Principal
from terracrew.server.secrets.keyring import Keyring
from terracrew.server.state import content
from terracrew.server.state.diff_process import DiffProcess

MAX_SEARCH_CHARACTERS = 200


async def find(db: Database, job: Job) -> StoredDiff | None:
    """Return the diff of a job's plan, which may be the plan of the PLAN job that it was created to apply."""
    is_chosen = job.plan_attempt == CHOSEN and job.plan_job_id is not None
    return await db.read(lambda tx: diff_store.get(tx, job.plan_job_id if is_chosen and job.plan_job_id else job.id))


async def page(
    objects: Objects, keys: Keyring, diffs: DiffProcess, who: Principal, stored: StoredDiff, query: DiffQuery
) -> DiffPage:
    """Read resources of a diff."""
    if stored.object is not None:
        plain = (await content.read_object(objects, keys, stored.module_id, stored.object)).content
    else:
        plain = keys.decrypt(stored.content or b"", diff_content.context(stored.job_id))
    return await diffs.page(who, plain, query)


async def listing(
    db: Database,
    objects: Objects,
    keys: Keyring,
    diffs: DiffProcess,
    who: Principal,
    job: Job,
    query: DiffQuery,
    after: str | None,
) -> PlanDiff:
    """Return a page of the diff of a job's plan for the API. It is empty if there is none."""
    place = paging.start_number(after)
    stored = await find(db, job)
    if stored is None:
        return PlanDiff()
    found = await page(objects, keys, diffs, who, stored, msgspec.structs.replace(query, start=place))
    return fields.created(
        PlanDiff,
        found.head,
        attempt=stored.attempt,
        total=found.total,
        items=found.resources,
        next=None if found.next is None else paging.cursor(str(found.next)),
    )
