"""The modules pages: the tree as a list, with what each did last and the way to run it; and one, with what stands in its way."""

from typing import Any, Literal

import msgspec
from litestar import Response, Router, get, post
from litestar.params import FromPath, FromQuery

from terracrew.protocol.spec import JobType
from terracrew.server.dashboard import destroy, forms, render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.dashboard.queries import modules as rows
from terracrew.server.jobs.create import JobRequest, NewJob

HERE = "/dashboard/modules"


class RunForm(msgspec.Struct, frozen=True):
    type: Literal["PLAN", "APPLY", "DESTROY", "DESTROY_PLAN"]

    @property
    def job(self) -> NewJob:
        return NewJob(JobType.PLAN, is_destroy_plan=True) if self.type == "DESTROY_PLAN" else NewJob(JobType(self.type))


@get("/")
async def listing(request: DashboardCall, q: FromQuery[str] = "", after: FromQuery[str] = "") -> Response[Any]:
    found = await request.context.db.read_in_background(lambda tx: rows.listing(tx, request.user, q, after))
    return await render.page(request, "modules/page.html", "modules/list.html", page=found)


@get("/{module:str}")
async def show(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    who, watch = request.user, request.context.watch.for_reader(request.user)
    found = await request.context.db.read_in_background(lambda tx: rows.page(tx, who, module, watch))
    return await render.page(request, "modules/one_page.html", "modules/one.html", page=found)


@post("/{module:str}/run")
async def run(request: DashboardCall, module: FromPath[str]) -> Response[Any]:
    form = await forms.read(request, RunForm)
    made = await request.context.create_job(JobRequest(request.user, module, form.job))
    return render.go(request, f"/dashboard/jobs/{made.job.id}")


pages = Router(
    HERE, route_handlers=[listing, show, run, destroy.ask], exception_handlers=HANDLERS, include_in_schema=False
)
