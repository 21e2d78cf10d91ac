"""The runners page: who is there, what they are doing, and adding, draining and removing them."""

from typing import Any

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.errors import Conflict, Invalid
from terracrew.server.db.seam import Tx
from terracrew.server.identity import authorize
from terracrew.server.identity.authorize import Verb
from terracrew.server.identity.model import Principal
from terracrew.server.request import Call
from terracrew.server.runners import service
from terracrew.server.runners.model import Registered, Registration, RunnerChange, RunnerStatus
from terracrew.server.web import forms, render
from terracrew.server.web.errors import HANDLERS
from terracrew.server.web.queries import jobs as job_rows
from terracrew.server.web.queries import runners as rows
from terracrew.server.web.views import JobRow, RunnersPage

HERE = "/dashboard/runners"


class RegisterForm(msgspec.Struct, frozen=True):
    name: str
    group: str = ""


class DrainForm(msgspec.Struct, frozen=True):
    on: bool


@get("/")
async def listing(
    request: Call, status: FromQuery[RunnerStatus | None] = None, q: FromQuery[str] = "", page: FromQuery[int] = 1
) -> Response[Any]:
    who, why = request.user, job_rows.reasons_of(request.server.registry)

    async def read(tx: Tx) -> tuple[RunnersPage, list[JobRow], list[str]]:
        return await rows.listing(tx, who, status, q, page), await job_rows.active(tx, who, why), await _groups(tx, who)

    found, jobs, groups = await request.server.db.read(read)
    return await render.page(
        request, "runners/page.html", "runners/list.html", page=found, jobs=jobs, groups=groups, wrong=""
    )


@get("/add")
async def add_page(request: Call) -> Response[Any]:
    groups = await request.server.db.read(lambda tx: _groups(tx, request.user))
    return await render.page(request, "runners/add.html", groups=groups, made=None, wrong="")


@post("/add", status_code=200)
async def add(request: Call) -> Response[Any]:
    """The answer holds the token, this once."""
    form = await forms.read(request, RegisterForm)
    wrong, made = "", None
    try:
        made = await _register(request, form)
    except (Invalid, Conflict) as error:
        wrong = error.message
    groups = await request.server.db.read(lambda tx: _groups(tx, request.user))
    fragment = "runners/registered.html" if made else "runners/register.html"
    return await render.page(
        request, "runners/add.html", fragment, groups=groups, made=made, wrong=wrong, name=form.name, group=form.group
    )


@post("/{runner:str}/drain")
async def drain(request: Call, runner: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, DrainForm)
    change = RunnerChange(is_draining=form.on)
    view = await request.server.db.write(lambda tx: service.change(tx, request.user, runner, change))
    said = f"{view.path} finishes what it has and takes nothing new" if form.on else f"{view.path} takes jobs again"
    return render.done(request, said, HERE)


@post("/{runner:str}/remove")
async def remove(request: Call, runner: FromPath[str]) -> Response[Any]:
    await request.server.db.write(lambda tx: service.delete(tx, request.user, runner, force=False))
    return render.done(request, "The runner is removed", HERE)


async def _register(request: Call, form: RegisterForm) -> Registered:
    new, url = Registration(form.name.strip(), form.group), request.server.settings.url
    return await request.server.db.write(lambda tx: service.register(tx, request.user, new, url))


async def _groups(tx: Tx, who: Principal) -> list[str]:
    """The groups in which the reader may make a runner."""
    allowed = await authorize.visible(tx, who, Verb.RUNNER_WRITE)
    found = await tx.all(
        "SELECT path FROM groups WHERE organization_id = :id ORDER BY path LIMIT 1000", id=who.organization_id
    )
    paths: list[str] = [row["path"] for row in found]
    return [path for path in paths if allowed.covers(authorize.group(who.organization_id or "", path))]


pages = Router(
    HERE, route_handlers=[listing, add_page, add, drain, remove], exception_handlers=HANDLERS, include_in_schema=False
)
