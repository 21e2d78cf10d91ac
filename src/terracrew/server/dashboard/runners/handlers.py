"""The handlers of the runners pages: the list, one runner, and the sheet that registers a runner."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.api.runners import Registered, Registration, RunnerStatus
from terracrew.errors import Conflict, Invalid, NotFound
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.jobs.rows import JobRow
from terracrew.server.dashboard.runners import actions, deploy, deployment, edit, page, rows, start, update
from terracrew.server.dashboard.runners.page import HERE
from terracrew.server.dashboard.runners.rows import RunnersPage
from terracrew.server.db.seam import Tx
from terracrew.server.runners import service


class RegisterForm(msgspec.Struct, frozen=True):
    name: str
    group: str = ""
    description: str = ""
    tags: str = ""
    max_jobs: str = ""
    allow_multiple_instances: bool = False
    assign: bool = False
    """Whether all modules of the group may use it at once: an unchecked box sends nothing."""


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
    form = RegisterForm("", found.group, assign=True)
    return await render.page(
        request,
        "runners/list_page.html",
        "runners/list.html",
        page=found,
        jobs=jobs,
        groups=groups,
        form=form,
        wrong="",
    )


@get("/add")
async def add_page(request: DashboardCall, group: FromQuery[str] = "") -> Response[Any]:
    groups = await request.context.db.read_in_background(lambda tx: rows.read_groups(tx, request.user))
    form = RegisterForm("", group, assign=True)
    return await render.page(request, "runners/add_page.html", groups=groups, made=None, form=form, wrong="")


@post("/add", status_code=200)
async def add(request: DashboardCall) -> Response[Any]:
    """Register a runner. Only this answer contains its token."""
    form = await forms.read(request, RegisterForm)
    wrong, made = "", None
    try:
        made = await _register(request, form)
    except (Invalid, Conflict) as error:
        wrong = error.message
    groups = await request.context.db.read_in_background(lambda tx: rows.read_groups(tx, request.user))
    fragment = "runners/registered.html" if made else "runners/register.html"
    how = start.shown(made) if made else {"made": None}
    return await render.page(request, "runners/add_page.html", fragment, groups=groups, form=form, wrong=wrong, **how)


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


async def _register(request: DashboardCall, form: RegisterForm) -> Registered:
    limits = edit.limits(form.max_jobs)
    try:
        new = msgspec.convert(
            {
                "name": form.name.strip(),
                "group": form.group,
                "description": form.description.strip(),
                "tags": edit.split(form.tags),
                "allow_multiple_instances": form.allow_multiple_instances,
                "assign": form.assign,
                **limits,
            },
            Registration,
        )
    except msgspec.ValidationError as error:
        raise Invalid(f"these values are not valid: {error}") from None
    url, seconds = request.context.url, request.context.identity.tokens.worker_token_seconds
    key = request.context.release_key
    return await request.context.db.write(lambda tx: service.register(tx, request.user, new, url, seconds, key))


pages = Router(
    HERE,
    route_handlers=[
        list_page,
        add_page,
        add,
        *deploy.handlers,
        runner_page,
        *actions.handlers,
        *deployment.handlers,
        *edit.handlers,
        *start.handlers,
        *update.handlers,
    ],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
