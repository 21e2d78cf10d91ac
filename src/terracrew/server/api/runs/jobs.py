"""Jobs over HTTP: run, list, look, decide about, cancel, run again."""

from datetime import datetime
from typing import Annotated

from litestar import Response, get, patch, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, PathParameter, QueryParameter

from terracrew.api.inputs import JobInputs
from terracrew.api.job_views import AttemptReport, JobListed, JobView, PlanDiff
from terracrew.api.jobs import (
    ApplyPlan,
    Approval,
    ApprovedJob,
    CanceledMany,
    CancelMany,
    CancelRequest,
    Decline,
    Job,
    JobChange,
    JobStatus,
    NewJob,
    Replan,
)
from terracrew.api.lost_resources import LostResources
from terracrew.api.pages import Page
from terracrew.errors import Invalid
from terracrew.plan_diff.document import ActionFilter, DiffQuery
from terracrew.protocol.spec import JobType
from terracrew.server import paging
from terracrew.server.api.context import RunsCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.jobs import approvals, bulk_cancel, create, job_inputs, priorities, service
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.lost_resources import listing as lost_resources
from terracrew.server.jobs.lost_resources.imports import Imports
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import attempt_report, lists, plan_diff, view

Number = Annotated[int, PathParameter(ge=1, le=1 << 31)]
TypeOfJob = Annotated[JobType | None, QueryParameter(name="type", description="Only jobs of this type")]
Who = Annotated[str, QueryParameter(description="The name of the person or service account that has queued it")]
RunnerPath = Annotated[str, QueryParameter(description="The path of the runner that has it, or had it last")]
Since = Annotated[datetime | None, QueryParameter(description="Only jobs that were created at this time or later")]
Until = Annotated[datetime | None, QueryParameter(description="Only jobs that were created before this time")]


@post("/modules/{module:str}/jobs", summary="Run a job on a module")
async def run_job(
    request: RunsCall,
    module: FromPath[str],
    data: JSONBody[NewJob],
    key: Annotated[str | None, HeaderParameter(name="Idempotency-Key")] = None,
) -> Response[Job]:
    """Queue a job. The same Idempotency-Key gives the same job again, with 200."""
    if key is not None and not 0 < len(key) <= 200:
        raise Invalid("an Idempotency-Key must have 1 to 200 characters")
    created = await request.context.create_job(create.JobRequest(request.user, tree_path(module), data, key))
    return Response(created.job, status_code=201 if created.is_new else 200)


@get("/jobs", summary="List jobs")
async def list_jobs(
    request: RunsCall,
    limit: paging.Limit = 50,
    after: paging.After = None,
    status: FromQuery[JobStatus | None] = None,
    module: FromQuery[str | None] = None,
    active: FromQuery[bool] = False,
    job_type: TypeOfJob = None,
    who: Who = "",
    runner: RunnerPath = "",
    since: Since = None,
    until: Until = None,
) -> Page[JobListed]:
    """List the jobs that you may see, newest first, each with the reason why it waits."""
    watch = request.context.watch.for_reader(request.user)
    wanted = lists.Query(status, module, active, job_type, who, runner, since, until)
    return await request.read_in_background(lists.listing, wanted, after, limit, watch)


@get("/jobs/{job:str}", summary="Show a job")
async def get_job(request: RunsCall, job: FromPath[str]) -> JobView:
    """Show a job by its id or number: its steps, its attempts, its plan, and why it waits."""
    who, watch = request.user, request.context.watch.for_reader(request.user)
    found = await view.current(request.context.db, lambda tx: service.find(tx, who, job, Verb.JOB_READ), watch)
    request.context.waking_ahead.open(who, found.id, found.attempt, found.status)
    return found


@patch("/jobs/{job:str}", summary="Change the priority of a job")
async def change_job(request: RunsCall, job: FromPath[str], data: JSONBody[JobChange]) -> Job:
    """Change the priority of a job that is queued or waits for an approval. Jobs with a higher priority run first."""
    return await priorities.change(request.context.db, request.user, job, data)


@post("/jobs/cancel", status_code=200, summary="Cancel many jobs")
async def cancel_jobs(request: RunsCall, data: JSONBody[CancelMany]) -> CanceledMany:
    """Cancel up to 500 jobs, oldest first: all that you may cancel and that match. Repeat with `after` until `next` is null."""
    return await bulk_cancel.cancel_many(request.context.db, request.user, data)


@post("/jobs/{job:str}/cancel", status_code=202, summary="Cancel a job")
async def cancel_job(request: RunsCall, job: FromPath[str], data: JSONBody[CancelRequest]) -> Job:
    """Ask a job to stop: after the current step, by interrupt, or by kill."""
    return await service.cancel(request.context.db, request.user, job, data.mode)


@post("/jobs/{job:str}/approve", status_code=200, summary="Approve the plan of a job")
async def approve_job(request: RunsCall, job: FromPath[str], data: JSONBody[Approval]) -> ApprovedJob:
    """Approve its plan. The job continues when as many people have approved as its module or a group above requires.

    The approval covers only the plan and the doubts that it names.

    It is refused with 409 if the module's state has changed since that plan was made, or if the module is in doubt because of
    an attempt that the approval does not name.
    """
    context = request.context
    return await approvals.approve(
        context.db, context.registry, request.user, job, data.plan, data.doubts, data.comment
    )


@post("/jobs/{job:str}/apply", summary="Apply the plan of a PLAN job")
async def apply_job_plan(request: RunsCall, job: FromPath[str], data: JSONBody[ApplyPlan]) -> Response[Job]:
    """Create a job that applies the plan which this PLAN job has made, as it is. A plan is applied once: if you have asked for it
    before, you get the same job again, with 200.

    It is refused with 409 if the state, the source or an input of the module has changed since the plan was made, if the plan is
    no longer kept, or if it would change nothing. The new job waits for approval if a rule of the module or of a group above it
    requires more than yours.
    """
    created = await request.context.apply_plan(request.user, job, data)
    return Response(created.job, status_code=201 if created.is_new else 200)


@post("/jobs/{job:str}/replan", status_code=200, summary="Make a new plan for a job")
async def replan_job(request: RunsCall, job: FromPath[str], data: JSONBody[Replan]) -> Job:
    """Let a job make a new plan instead of the one that waits for approval. The new plan needs an approval, too."""
    context = request.context
    if data.import_lost is None:
        return await approvals.replan(context.db, request.user, job, data.plan)
    imports = Imports(context.db, context.objects, context.keys)
    return await approvals.replan_with_imports(context.db, imports, request.user, job, data.plan, data.import_lost)


@post("/jobs/{job:str}/decline", status_code=200, summary="Decline the plan of a job")
async def decline_job(request: RunsCall, job: FromPath[str], data: JSONBody[Decline]) -> Job:
    """End a job without applying its plan."""
    return await approvals.decline(request.context.db, request.user, job, data.plan, data.reason)


@get("/jobs/{job:str}/attempts/{attempt:int}", summary="Show an attempt of a job")
async def get_attempt(request: RunsCall, job: FromPath[str], attempt: Number) -> AttemptReport:
    """Report on an attempt: its runner, how far it came, its last contact, and what has arrived from it."""

    db = request.context.db
    found = await request.read(service.find, job, Verb.JOB_READ)
    return await attempt_report.read(db, request.context.objects, found.id, attempt)


@get("/jobs/{job:str}/lost-resources", summary="List what a job may have lost")
async def list_lost_resources(
    request: RunsCall, job: FromPath[str], limit: paging.Limit = 50, after: paging.After = None
) -> LostResources:
    """List what the log of a job reports as created, changed or destroyed, and its module's state does not record.

    Only attempts whose engine did not end its change by itself can have lost something. A page can have fewer items than its
    limit; `next` is null on the last one.
    """
    context = request.context
    return await lost_resources.read(context.db, context.objects, context.keys, request.user, job, after, limit)


@get("/jobs/{job:str}/inputs", summary="Show what a job was given")
async def get_inputs(
    request: RunsCall, job: FromPath[str], attempt: Annotated[int | None, QueryParameter(ge=1, le=1 << 31)] = None
) -> JobInputs:
    """Show which inputs an attempt of a job was given, without values: where each is set, by whom, when, and in which version.

    Without `attempt`, it is the last attempt that was given any.
    """
    who = request.user

    async def read(tx: Tx) -> JobInputs:
        return await job_inputs.used_by(tx, who, await service.find(tx, who, job, Verb.JOB_READ), attempt)

    return await request.context.db.read_in_background(read)


@post("/jobs/{job:str}/attempts/{attempt:int}/gone", status_code=200, summary="Give up on a lost attempt")
async def give_up_attempt(request: RunsCall, job: FromPath[str], attempt: Number) -> Job:
    """Say that an attempt which was lost in the middle of a change is gone; to unlock its module by force is the same act.

    If it is not gone after all, it may still be changing things. So it is fenced (it can write nothing current any more), the
    job is queued again, and nothing on the module is changed before a person has approved a plan that was made after this.
    """
    return await lost_attempts.give_up(request.context.db, request.context.registry, request.user, job, attempt)


@post("/jobs/{job:str}/rerun", summary="Run a job again")
async def rerun_job(request: RunsCall, job: FromPath[str]) -> Job:
    """Queue a new job that asks for the same: type, destroy plan, priority, approval, its own inputs, and its own source if it
    had one.

    Otherwise it takes the module's source and inputs as they are when it starts.
    """
    return await create.run_again(request.context.db, request.context.create_job, request.user, job)


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
    found = await request.read(service.find, job, Verb.JOB_READ)
    query = DiffQuery(action, q, count=limit)
    return await plan_diff.listing(
        context.db, context.objects, context.keys, context.diffs, request.user, found, query, after
    )
