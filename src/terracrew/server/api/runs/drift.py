"""Drift over HTTP: what was changed outside of the engine, checks, mutes, and the way back."""

from typing import Annotated

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.drift import (
    AskDriftCheck,
    AskedDriftCheck,
    DriftFilter,
    DriftMute,
    ModuleDrift,
    ModuleDriftView,
    NewMute,
    Reconcile,
)
from terracrew.api.jobs import Job
from terracrew.api.pages import Page
from terracrew.server.api.context import RunsCall
from terracrew.server.drift import service
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit

Below = Annotated[str, QueryParameter(description="Only modules in and below this group, by its path or id")]
Only = Annotated[
    DriftFilter, QueryParameter(description="Modules that differ, whose last check failed, with mutes, or all")
]


@get("/drift", summary="List modules with drift")
async def listing(
    request: RunsCall, only: Only = "drifted", place: Below = "", after: After = None, limit: Limit = 50
) -> Page[ModuleDrift]:
    """List the modules that the caller may see and that were checked for drift, in the order of their paths."""
    return await request.read_in_background(service.listing, only, place, after, limit)


@post("/drift/checks", status_code=202, summary="Check for drift")
async def check(request: RunsCall, data: JSONBody[AskDriftCheck]) -> AskedDriftCheck:
    """Have a module, or all modules of a group in which something exists, checked for drift.

    A check begins when no job of its module is queued or running, and when few enough checks run.
    """
    return await request.write(service.ask, data)


@post("/drift/reconcile", summary="Reconcile a module")
async def reconcile(request: RunsCall, data: JSONBody[Reconcile]) -> Job:
    """Queue an APPLY of a module, with all of its approvals, so that what exists is again what its configuration says. The module is
    checked again when that job has ended."""
    context = request.context
    return await service.reconcile(context.db, context.create_job, request.user, data.module)


@post("/drift/mutes", summary="Mute an address")
async def mute(request: RunsCall, data: JSONBody[NewMute]) -> DriftMute:
    """Tell nothing about an address of a module until a time. If it still differs then, it is told again."""
    return await request.write(service.mute, data)


@delete("/drift/mutes/{mute:str}", summary="End a mute")
async def unmute(request: RunsCall, mute: FromPath[str]) -> None:
    """End a mute before its time."""
    await request.write(service.unmute, mute)


@get("/drift/modules/{module:str}", summary="Show the drift of a module")
async def show(request: RunsCall, module: FromPath[str]) -> ModuleDriftView:
    """Show which addresses of a module differ and since when, what is muted, and what the newest checks have told."""
    return await request.read(service.show, tree_path(module))
