"""The handlers of the jobs pages: the list, one job, and the forms that cancel it, decide about it or run it again."""

import re
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, FromQuery, QueryParameter
from litestar.response import Redirect

from terracrew.api.jobs import ApplyPlan, CancelRequest, Decline, JobChange, JobStatus, NewJob, Replan
from terracrew.api.lost_resources import ImportLost
from terracrew.errors import Invalid
from terracrew.protocol.messages import AttemptRef
from terracrew.protocol.spec import JobType
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.jobs import diff, page, rows
from terracrew.server.dashboard.jobs.rows import JobFilters
from terracrew.server.jobs import approvals, create, priorities, service
from terracrew.server.jobs.attempts import lost_attempts
from terracrew.server.jobs.lost_resources import listing as lost_resources
from terracrew.server.jobs.lost_resources.imports import Imports
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import log as run_log
from terracrew.wording import approval_words

HERE = "/dashboard/jobs"
Start = Annotated[int, QueryParameter(ge=0, le=10_000)]
MAX_DOUBTS_CHARACTERS = 64_000
"""The length of 1,000 doubts, as many as an approval by the API may name."""
MAX_LOST_RESOURCES = 100
"""How many lost resources the page of a job shows."""
MAX_LOG_LINES = 50_000
"""About how many lines of a longer log the page of a job loads: the last ones."""
_ATTEMPT = re.compile(r"[0-9]{1,15}\Z")


class ApproveForm(msgspec.Struct, frozen=True):
    plan: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
    """The number of the attempt that made the plan that the page showed."""
    doubts: Annotated[str, msgspec.Meta(max_length=MAX_DOUBTS_CHARACTERS)] = ""
    """The doubts that the page showed: `<job id>.<attempt>`, separated by spaces."""
    comment: Annotated[str, msgspec.Meta(max_length=4_000)] = ""

    @property
    def seen(self) -> list[AttemptRef]:
        pairs = (each.rpartition(".") for each in self.doubts.split())
        return [AttemptRef(job_id, int(attempt)) for job_id, _, attempt in pairs if _ATTEMPT.match(attempt)]


class GoneForm(msgspec.Struct, frozen=True):
    attempt: Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
    confirm: str = ""


@get("/")
async def list_page(
    request: DashboardCall,
    status: FromQuery[str] = "",
    module: FromQuery[str] = "",
    job_type: Annotated[str, QueryParameter(name="type")] = "",
    who: FromQuery[str] = "",
    runner: FromQuery[str] = "",
    since: FromQuery[str] = "",
    until: FromQuery[str] = "",
    before: FromQuery[str | None] = None,
) -> Response[Any]:
    module = module.strip()
    if (
        (number := module.removeprefix("#").replace(",", "")).isdigit()
        and number.isascii()
        and len(number) < 19
        and module
        and not render.is_fragment(
            request
        )  # htmx asks while the number is typed: that lists the job, and Enter opens it
    ):
        return Redirect(f"{HERE}/{number}", status_code=303)
    kind = status if status == "open" or status in JobStatus.__members__ else ""
    filters = JobFilters(kind, module, job_type, who.strip(), runner.strip(), since, until)
    found = await request.read(rows.read_page, filters, before, request.watch)
    runners = await request.read(forms.offer_runner_paths)
    return await render.page(request, "jobs/list", page=found, before=before, runners=runners)


@get("/{job:str}")
async def job_page(
    request: DashboardCall,
    job: FromPath[str],
    attempt: FromQuery[int | None] = None,
    action: FromQuery[str] = "",
    q: FromQuery[str] = "",
    start: Start = 0,
    log: FromQuery[str] = "",
) -> Response[Any]:
    """Show a job. Of a long log, the page loads the last lines; with `log=all`, it loads all of them."""
    who, context = request.user, request.context
    found = await request.read(page.read, job, attempt, context.keys, request.watch)
    if found.view.id != job:
        return Redirect(f"{HERE}/{found.view.id}", status_code=303)
    context.waking_ahead.open(who, found.view.id, found.view.attempt, found.view.status)
    if found.may_have_lost:
        lost = await lost_resources.read(context.db, context.objects, context.keys, who, job, None, MAX_LOST_RESOURCES)
        found = msgspec.structs.replace(found, lost_resources=lost)
    if log != "all" and not render.is_fragment(request):
        ending = await context.db.read(lambda tx: run_log.end(tx, found.view.id, found.shown, MAX_LOG_LINES))
        found = msgspec.structs.replace(found, log_end=ending)
    query = {"attempt": found.shown, "last_event_id": found.log_end and found.log_end.place}
    live = "" if found.is_log_finished else render.query(f"/api/v1/jobs/{job}/log/stream", **query)
    # The plan refreshes itself, because a large one is not read again with every event of the job.
    panel = (
        None
        if render.is_fragment(request)
        else await diff.read(context, request.user, found.view, diff.query(action, q, start))
    )
    return await render.page(request, "jobs/job", page=found, attempt=attempt, live=live, panel=panel)


@get("/{job:str}/diff")
async def job_diff(
    request: DashboardCall,
    job: FromPath[str],
    action: FromQuery[str] = "",
    q: FromQuery[str] = "",
    start: Start = 0,
    known: FromQuery[str] = "",
) -> Response[Any]:
    """Return the plan panel alone, or 204 if the reader has it already."""
    context = request.context
    found = await request.read(service.find, job, Verb.JOB_READ)
    if not render.is_fragment(request):
        return Redirect(render.query(f"{HERE}/{found.id}", action=action, q=q, start=start), status_code=303)
    panel = await diff.read(context, request.user, found, diff.query(action, q, start), known)
    if panel is None:
        return Response(b"", status_code=204)
    return await render.template(request, "jobs/plan.html", panel=panel)


@post("/{job:str}/priority")
async def change_priority(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    change = await forms.read(request, JobChange)
    after = await priorities.change(request.context.db, request.user, job, change)
    return render.done(request, f"Job #{after.number} has the priority {after.priority}", f"{HERE}/{job}")


@post("/{job:str}/cancel")
async def cancel(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, CancelRequest)
    after = await service.cancel(request.context.db, request.user, job, form.mode)
    said = f"Job #{after.number} is canceled" if after.is_terminal else f"Job #{after.number} was asked to stop"
    return render.done(request, said, f"{HERE}/{job}")


@post("/{job:str}/approve")
async def approve(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ApproveForm)
    context = request.context
    after = await approvals.approve(context.db, context.registry, request.user, job, form.plan, form.seen, form.comment)
    said = approval_words.given(after.number, after.approvals_counted, after.approvals_needed)
    return render.done(request, said, f"{HERE}/{job}")


@post("/{job:str}/apply")
async def apply(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    """Apply the plan of a PLAN job by a new job, and show that one."""
    made = await request.context.apply_plan(request.user, job, await forms.read(request, ApplyPlan))
    return render.go(request, f"{HERE}/{made.job.id}")


@post("/{job:str}/replan")
async def replan(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, Replan)
    after = await approvals.replan(request.context.db, request.user, job, form.plan)
    return render.done(request, f"Job #{after.number} plans again", f"{HERE}/{job}")


@post("/{job:str}/decline")
async def decline(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, Decline)
    after = await approvals.decline(request.context.db, request.user, job, form.plan, form.reason.strip())
    return render.done(request, f"Job #{after.number} is declined", f"{HERE}/{job}")


@post("/{job:str}/gone")
async def gone(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    """Give up a lost attempt. The number must be typed, so that nobody gives up the wrong attempt in a hurry."""
    form, context = await forms.read(request, GoneForm), request.context
    known = await request.read(service.find, job, Verb.JOB_READ)
    if form.confirm.strip().removeprefix("#") != str(known.number):
        raise Invalid(f"to confirm it, type the number of this job: {known.number}")
    after = await lost_attempts.give_up(context.db, context.registry, request.user, job, form.attempt)
    return render.done(request, f"Attempt {form.attempt} of job #{after.number} is given up", f"{HERE}/{job}")


@post("/{job:str}/rerun")
async def rerun(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    made = await create.run_again(request.context.db, request.context.create_job, request.user, job)
    return render.go(request, f"{HERE}/{made.id}")


@post("/{job:str}/import-lost")
async def import_lost(request: DashboardCall, job: FromPath[str]) -> Response[Any]:
    """Let an apply that waits plan again with imports, or queue one. It waits for an approval: a person has to look at its plan."""
    context, who = request.context, request.user
    lost = await request.read(service.find, job, Verb.JOB_READ)
    if lost.status is JobStatus.AWAITING_APPROVAL and lost.type is JobType.APPLY and lost.plan_attempt is not None:
        imports, asked_for = Imports(context.db, context.objects, context.keys), ImportLost(lost.id)
        await approvals.replan_with_imports(context.db, imports, who, job, lost.plan_attempt, asked_for)
        return render.done(request, f"Job #{lost.number} plans again, with imports", f"{HERE}/{job}")
    asked = NewJob(JobType.APPLY, needs_approval=True, import_lost=ImportLost(lost.id))
    made = await context.create_job(create.JobRequest(who, lost.module_id, asked))
    return render.go(request, f"{HERE}/{made.job.id}")
