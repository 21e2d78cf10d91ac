"""Diffs of plans over HTTP."""

from typing import Annotated

from litestar import Router, get
from litestar.params import FromPath, QueryParameter

from terracrew.api.job_views import PlanDiff
from terracrew.plan_diff.document import ActionFilter, DiffQuery
from terracrew.server import paging
from terracrew.server.api.runs.context import RunsCall
from terracrew.server.jobs import service
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import plan_diff


@get("/jobs/{job:str}/diff", summary="Show the plan of a job by attribute")
async def get_diff(
    request: RunsCall,
    job: FromPath[str],
    action: Annotated[
        ActionFilter,
        QueryParameter(description="Only resources with this action; `drift` for those that were changed outside"),
    ] = "",
    q: Annotated[
        str,
        QueryParameter(
            max_length=plan_diff.MAX_SEARCH_CHARACTERS,
            description="Only resources with this text in their address, reason, or names and values of attributes",
        ),
    ] = "",
    limit: paging.Limit = 50,
    after: paging.After = None,
) -> PlanDiff:
    """Show what the plan of a job would change in each resource, destructive changes first.

    Sensitive values never leave the runner, and are marked as such. Long values are shortened.
    """
    context = request.context
    found = await context.db.read(lambda tx: service.find(tx, request.user, job, Verb.JOB_READ))
    query = DiffQuery(action, q, count=limit)
    return await plan_diff.listing(
        context.db, context.objects, context.keys, context.diffs, request.user, found, query, after
    )


router = Router("/api/v1", route_handlers=[get_diff], tags=["jobs"])
