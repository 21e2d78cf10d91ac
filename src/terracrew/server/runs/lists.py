"""Lists the jobs that the reader may see, page by page, each with the reason why it waits."""

from datetime import datetime

import msgspec

from terracrew.api.job_views import JobListed
from terracrew.api.jobs import JobStatus
from terracrew.api.pages import Page
from terracrew.errors import NotFound
from terracrew.protocol.spec import JobType
from terracrew.server import paging
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.fragments import instance_name, runner_path
from terracrew.server.db.statements.mapping import row_to
from terracrew.server.jobs import reads, store
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runs import reasons
from terracrew.server.runs.reasons import Watch
from terracrew.server.tree.modules import service as modules


class Query(msgspec.Struct, frozen=True):
    status: JobStatus | None = None
    module: str | None = None
    """The path or the id of a module."""
    is_open: bool = False
    type: JobType | None = None
    who: str = ""
    """The name of the person or service account that has queued it."""
    runner: str = ""
    """The path of the runner that has it, or had it last."""
    since: datetime | None = None
    until: datetime | None = None


async def listing(tx: Tx, who: Principal, query: Query, after: str | None, limit: int, watch: Watch) -> Page[JobListed]:
    """Return jobs, the newest first. For a module that does not exist or that the reader may not see, the page is empty."""
    seen = await authorize.visible(tx, who, Verb.JOB_READ)
    module_id = None
    if query.module is not None:
        module_id = await visible_module(tx, who, query.module)
        if module_id is None:
            return Page([])
    wanted = reads.JobFilter(
        status=query.status,
        is_open=query.is_open,
        module_id=module_id,
        before=paging.start(after),
        type=query.type,
        who=query.who,
        runner=query.runner,
        since=query.since,
        until=query.until,
    )
    runner = f"{runner_path('jobs')} AS runner_path, {instance_name('jobs')} AS instance_name"
    columns = f"{store.JOBS.columns}, modules.path AS module_path, {runner}"
    rows = await reads.page(tx, columns, who.organization_id or "", seen, wanted, limit + 1)
    page = paging.page([row_to(JobListed, row) for row in rows], limit)
    found = await reasons.why_each(tx, page.items, watch)
    return Page([msgspec.structs.replace(job, reason=found.get(job.id)) for job in page.items], page.next)


async def visible_module(tx: Tx, who: Principal, reference: str) -> str | None:
    """Return the id of a module whose jobs the reader may see."""
    try:
        return (await modules.find(tx, who, reference, Verb.JOB_READ)).id
    except NotFound:
        return None
