"""The runners pages: the list with the open jobs, and the forms that add, configure, drain and remove a runner."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Conflict, Invalid
from terracrew.server.connections.configuration import Configuration, ConfigurationChange
from terracrew.server.dashboard import forms, render, words
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.jobs import rows as job_rows
from terracrew.server.dashboard.jobs.rows import JobRow
from terracrew.server.dashboard.words import Badge
from terracrew.server.db.seam import Tx
from terracrew.server.db.statements.search import patterns
from terracrew.server.groups import reads as group_reads
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.runners import reads, service, views
from terracrew.server.runners.model import Instance, Registered, Registration, RunnerChange, RunnerStatus, RunnerView

HERE = "/dashboard/runners"
PAGE_ROWS = 50
MAX_GROUPS = 300
"""How many groups the form that adds a runner offers."""


class RunnerRow(msgspec.Struct, frozen=True):
    runner: RunnerView
    may_change: bool

    @property
    def connected(self) -> list[Instance]:
        return [each for each in self.runner.instances if each.status is not RunnerStatus.OFFLINE]

    @property
    def badge(self) -> Badge:
        return words.runner_badge(self.runner.status)


class RunnersPage(msgspec.Struct, frozen=True):
    rows: list[RunnerRow]
    counts: dict[str, int]
    """The number of matching runners, by status and for `ALL`."""
    status: RunnerStatus | None
    search: str
    page: int
    pages: int


class RegisterForm(msgspec.Struct, frozen=True):
    name: str
    group: str = ""


class DrainForm(msgspec.Struct, frozen=True):
    on: bool


class RemoveForm(msgspec.Struct, frozen=True):
    force: bool = False


class ConfigureForm(msgspec.Struct, frozen=True):
    """The values as they were typed. Where one is empty, the runner's own setting applies."""

    heartbeat_seconds: str = ""
    log_level: str = ""
    batch_size_limit: str = ""
    period_seconds: str = ""


async def read_page(tx: Tx, who: Principal, status: RunnerStatus | None, search: str, page: int) -> RunnersPage:
    seen = await authorize.visible(tx, who, Verb.RUNNER_READ)
    within = reads.RunnerScope(who.organization_id or "", is_shared=service.is_shared_seen(who))
    typed = patterns(search)
    found = await reads.counts(tx, seen, within, typed)
    counts = {"ALL": sum(found.values())} | {each.value: found.get(each.value, 0) for each in RunnerStatus}
    pages = max(1, -(-counts[status.value if status else "ALL"] // PAGE_ROWS))
    page = min(max(1, page), pages)
    ids = await reads.by_path(tx, seen, within, status and status.value, typed, (page - 1) * PAGE_ROWS, PAGE_ROWS)
    changeable = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    shown = await views.views_of(tx, ids)
    rows = [RunnerRow(each, changeable.covers(service.place(each))) for each in shown]
    return RunnersPage(rows, counts, status, search, page, pages)


async def read_groups(tx: Tx, who: Principal) -> list[str]:
    """Return the paths of the groups in which the reader may add a runner."""
    allowed = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    return await group_reads.paths(tx, who.organization_id or "", allowed, MAX_GROUPS)


@get("/")
async def list_page(
    request: DashboardCall,
    status: FromQuery[RunnerStatus | None] = None,
    q: FromQuery[str] = "",
    page: FromQuery[int] = 1,
) -> Response[Any]:
    who, watch = request.user, request.context.watch.for_reader(request.user)

    async def read(tx: Tx) -> tuple[RunnersPage, list[JobRow], list[str]]:
        return (
            await read_page(tx, who, status, q, page),
            await job_rows.read_open(tx, who, watch),
            await read_groups(tx, who),
        )

    found, jobs, groups = await request.context.db.read_in_background(read)
    return await render.page(
        request, "runners/list_page.html", "runners/list.html", page=found, jobs=jobs, groups=groups, wrong=""
    )


@get("/add")
async def add_page(request: DashboardCall) -> Response[Any]:
    groups = await request.context.db.read_in_background(lambda tx: read_groups(tx, request.user))
    return await render.page(request, "runners/add_page.html", groups=groups, made=None, wrong="")


@post("/add", status_code=200)
async def add(request: DashboardCall) -> Response[Any]:
    """Register a runner. Only this answer contains its token."""
    form = await forms.read(request, RegisterForm)
    wrong, made = "", None
    try:
        made = await _register(request, form)
    except (Invalid, Conflict) as error:
        wrong = error.message
    groups = await request.context.db.read_in_background(lambda tx: read_groups(tx, request.user))
    fragment = "runners/registered.html" if made else "runners/register.html"
    return await render.page(
        request,
        "runners/add_page.html",
        fragment,
        groups=groups,
        made=made,
        wrong=wrong,
        name=form.name,
        group=form.group,
    )


@post("/{runner:str}/drain")
async def drain(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, DrainForm)
    change = RunnerChange(is_draining=form.on)
    view = await request.context.db.write(lambda tx: service.change(tx, request.user, runner, change))
    said = (
        f"Draining {view.path}: it finishes its jobs and takes no new ones"
        if form.on
        else f"{view.path} takes jobs again"
    )
    return render.done(request, said, HERE)


@post("/{runner:str}/remove")
async def remove(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, RemoveForm)
    await request.context.db.write(lambda tx: service.delete(tx, request.user, runner, form.force))
    return render.done(request, "The runner is removed", HERE)


@get("/{runner:str}/configure")
async def configure_page(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    found = await request.context.db.read(lambda tx: service.changeable(tx, request.user, runner))
    return await render.page(
        request, "runners/configure_page.html", runner=found, form=_typed(found.configuration), wrong=""
    )


@post("/{runner:str}/configure", status_code=200)
async def configure(request: DashboardCall, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, ConfigureForm)

    async def work(tx: Tx) -> RunnerView:
        found = await service.changeable(tx, request.user, runner)
        change = RunnerChange(configuration=_wanted(form, found.configuration))
        return await service.change(tx, request.user, runner, change)

    try:
        view = await request.context.db.write(work)
    except Invalid as error:
        found = await request.context.db.read(lambda tx: service.changeable(tx, request.user, runner))
        return await render.page(request, "runners/configure_page.html", runner=found, form=form, wrong=error.message)
    return render.done(request, f"{view.path} is configured", HERE)


def _typed(found: Configuration) -> ConfigureForm:
    numbers = [found.heartbeat_seconds, found.batch_size_limit, found.period_seconds]
    heartbeat, batch, period = ["" if each is None else f"{each:g}" for each in numbers]
    return ConfigureForm(
        heartbeat, "\n".join(f"{name}={level}" for name, level in found.log_level.items()), batch, period
    )


def _wanted(form: ConfigureForm, before: Configuration) -> ConfigurationChange:
    """Return the change from `before` to what the form says; a value that the form leaves out is reset."""
    levels: dict[str, str | None] = dict.fromkeys(before.log_level)
    for line in filter(None, map(str.strip, form.log_level.splitlines())):
        name, _, level = line.partition("=")
        levels[name.strip()] = level.strip().capitalize()
    numbers = {
        name: getattr(form, name).strip() or None
        for name in ("heartbeat_seconds", "batch_size_limit", "period_seconds")
    }
    try:
        return msgspec.convert({**numbers, "log_level": levels}, ConfigurationChange, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid(f"these settings are not valid: {error}") from None


async def _register(request: DashboardCall, form: RegisterForm) -> Registered:
    new, url = Registration(form.name.strip(), form.group), request.context.url
    return await request.context.db.write(lambda tx: service.register(tx, request.user, new, url))


pages = Router(
    HERE,
    route_handlers=[list_page, add_page, add, drain, remove, configure_page, configure],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
