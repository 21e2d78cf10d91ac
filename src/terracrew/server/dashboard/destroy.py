"""The page that asks before everything that a module manages is destroyed, and names it."""

from typing import Any

import msgspec
from litestar import Response, get
from litestar.params import FromPath, FromQuery

from terracrew.errors import Invalid
from terracrew.protocol.spec import JobType
from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.db.seam import Tx
from terracrew.server.jobs import service as jobs
from terracrew.server.jobs.model import Job
from terracrew.server.modules import service
from terracrew.server.modules.model import Module
from terracrew.server.principals.authorize import Verb
from terracrew.server.state import resources
from terracrew.server.state.resources import Resources


class DestroyPage(msgspec.Struct, frozen=True):
    module: Module
    managed: Resources
    again: Job | None
    """The earlier DESTROY that is run again, if it is."""


@get("/{module:str}/destroy")
async def ask(request: DashboardCall, module: FromPath[str], again: FromQuery[str | None] = None) -> Response[Any]:
    """Show what a destroy would destroy. Only the page's buttons queue the DESTROY, or a plan of it."""
    context, who = request.context, request.user

    async def read(tx: Tx) -> tuple[Module, Job | None]:
        found = await service.find(tx, who, module, Verb.JOB_RUN)
        earlier = None if again is None else await jobs.find(tx, who, again, Verb.JOB_READ)
        if earlier is not None and (earlier.module_id, earlier.type) != (found.id, JobType.DESTROY):
            raise Invalid(f"job {earlier.number} is not a DESTROY of {found.path}")
        return found, earlier

    found, earlier = await context.db.read(read)
    is_kept_here = found.backend == "terracrew"
    managed = await resources.current(context.db, context.objects, context.keys, found.id, is_kept_here=is_kept_here)
    shown = DestroyPage(found, managed, earlier)
    return await render.page(request, "modules/destroy_page.html", "modules/destroy.html", page=shown)
