"""What a person does about states in quarantine, from the pages that show them."""

from typing import Any

from litestar import Response, Router, post
from litestar.params import FromPath

from terracrew.server.dashboard import render
from terracrew.server.dashboard.context import DashboardCall
from terracrew.server.dashboard.errors import HANDLERS
from terracrew.server.state import quarantine


@post("/{version:str}/adopt")
async def adopt(request: DashboardCall, version: FromPath[str]) -> Response[Any]:
    after = await request.context.db.write(lambda tx: quarantine.adopt(tx, request.user, version))
    said = f"The state with serial {after.serial} is the current one, as version {after.version}"
    return render.done(request, said, f"/dashboard/modules/{after.module_id}")


@post("/{version:str}/discard")
async def discard(request: DashboardCall, version: FromPath[str]) -> Response[Any]:
    after = await request.context.db.write(lambda tx: quarantine.discard(tx, request.user, version))
    return render.done(
        request, f"The state with serial {after.serial} is discarded", f"/dashboard/modules/{after.module_id}"
    )


pages = Router(
    "/dashboard/states", route_handlers=[adopt, discard], exception_handlers=HANDLERS, include_in_schema=False
)
