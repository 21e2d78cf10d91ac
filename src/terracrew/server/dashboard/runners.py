"""The runners page: who is there, what they are doing, and adding, draining and removing them."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Conflict, Invalid
from terracrew.server.connections.configuration import Configuration, ConfigurationChange
from terracrew.server.dashboard import forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.queries import jobs as job_rows
from terracrew.server.dashboard.queries import runners as rows
from terracrew.server.dashboard.views import JobRow, RunnersPage
from terracrew.server.db.seam import Tx
from terracrew.server.runners import service
from terracrew.server.runners.model import Registered, Registration, RunnerChange, RunnerStatus, RunnerView

HERE = "/dashboard/runners"


class RegisterForm(msgspec.Struct, frozen=True):
    name: str
    group: str = ""


class DrainForm(msgspec.Struct, frozen=True):
    on: bool


class RemoveForm(msgspec.Struct, frozen=True):
    force: bool = False


class ConfigureForm(msgspec.Struct, frozen=True):
    """The value as it was typed; it is empty if the runner's own settings decide."""

    heartbeat_seconds: str = ""
    log_level: str = ""
    batch_size_limit: str = ""
    period_seconds: str = ""


@get("/")
async def listing(
    request: DashboardCall,
    status: FromQuery[RunnerStatus | None] = None,
    q: FromQuery[str] = "",
    page: FromQuery[int] = 1,
) -> Response[Any]:
    who, watch = request.user, request.context.watch.for_reader(request.user)

    async def read(tx: Tx) -> tuple[RunnersPage, list[JobRow], list[str]]:
        return (
            await rows.listing(tx, who, status, q, page),
            await job_rows.active(tx, who, watch),
            await rows.groups(tx, who),
        )

    found, jobs, groups = await request.context.db.read_in_background(read)
    return await render.page(
        request, "runners/page.html", "runners/list.html", page=found, jobs=jobs, groups=groups, wrong=""
    )


@get("/add")
async def add_page(request: DashboardCall) -> Response[Any]:
    groups = await request.context.db.read_in_background(lambda tx: rows.groups(tx, request.user))
    return await render.page(request, "runners/add.html", groups=groups, made=None, wrong="")


@post("/add", status_code=200)
async def add(request: DashboardCall) -> Response[Any]:
    """The answer holds the token, this once."""
    form = await forms.read(request, RegisterForm)
    wrong, made = "", None
    try:
        made = await _register(request, form)
    except (Invalid, Conflict) as error:
        wrong = error.message
    groups = await request.context.db.read_in_background(lambda tx: rows.groups(tx, request.user))
    fragment = "runners/registered.html" if made else "runners/register.html"
    return await render.page(
        request, "runners/add.html", fragment, groups=groups, made=made, wrong=wrong, name=form.name, group=form.group
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
        request, "runners/configure.html", runner=found, form=_typed(found.configuration), wrong=""
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
        return await render.page(request, "runners/configure.html", runner=found, form=form, wrong=error.message)
    return render.done(request, f"{view.path} is configured", HERE)


def _typed(found: Configuration) -> ConfigureForm:
    numbers = [found.heartbeat_seconds, found.batch_size_limit, found.period_seconds]
    heartbeat, batch, period = ["" if each is None else f"{each:g}" for each in numbers]
    return ConfigureForm(
        heartbeat, "\n".join(f"{name}={level}" for name, level in found.log_level.items()), batch, period
    )


def _wanted(form: ConfigureForm, before: Configuration) -> ConfigurationChange:
    """Return the change that makes it what the form says; what was set and is not in the form is taken back."""
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
        raise Invalid(f"that cannot be set: {error}") from None


async def _register(request: DashboardCall, form: RegisterForm) -> Registered:
    new, url = Registration(form.name.strip(), form.group), request.context.url
    return await request.context.db.write(lambda tx: service.register(tx, request.user, new, url))


pages = Router(
    HERE,
    route_handlers=[listing, add_page, add, drain, remove, configure_page, configure],
    exception_handlers=HANDLERS,
    include_in_schema=False,
)
