"""The handlers of the runners pages: the list, one runner, and the sheet that registers a runner."""

from typing import Any

from litestar import Response, Router, get
from litestar.params import FromPath, FromQuery

from terracrew.api.runners import RunnerStatus
from terracrew.errors import NotFound
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.jobs.rows import JobRow
from terracrew.server.dashboard.runners import actions, deploy, deployment, edit, page, rows, start, update
from terracrew.server.dashboard.runners.edit import RegisterForm
from terracrew.server.dashboard.runners.page import HERE
from terracrew.server.dashboard.runners.rows import RunnersPage
from terracrew.server.db.seam import Tx


@get("/")
async def list_page(
    request: DashboardCall,
    status: FromQuery[RunnerStatus | None] = None,
    q: FromQuery[str] = "",
    page: FromQuery[int] = 1,
    group: FromQuery[str] = "",
) -> Response[Any]:
    who, watch = request.user, request.context.watch.for_reader(request.user)

    async def read(tx: Tx) -> tuple[RunnersPage, list[JobRow], list[str]]:
        return (
            await rows.read_page(tx, who, status, q, page, group),
            [] if group else await job_rows.read_open(tx, who, watch),
            await rows.read_groups(tx, who),
        )

    found, jobs, groups = await request.context.db.read_in_background(read)
    shown = edit.registration(RegisterForm(group=found.group, assign=True))
    return await render.page(
        request,
        "runners/list_page.html",
        "runners/list.html",
        page=found,
        jobs=jobs,
        groups=groups,
        **shown,
    )


@get("/{runner:str}")
async def runner_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    who, watch = request.user, request.context.watch.for_reader(request.user)
    rules = request.context.rollout_rules
    try:
        found = await request.context.db.read_in_background(lambda tx: page.read(tx, who, runner, watch, rules))
    except NotFound:
        if not render.is_fragment(request):
            raise
        return await render.page(request, "runners/gone.html", "runners/gone.html")
    return await render.page(request, "runners/runner_page.html", "runners/runner.html", page=found)


pages = Router(
    HERE,
    route_handlers=[
        list_page,
        *edit.handlers,
        *deploy.handlers,
        runner_page,
        *actions.handlers,
        *deployment.handlers,
        *start.handlers,
        *update.handlers,
    ],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
