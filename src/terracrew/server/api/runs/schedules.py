"""Schedules over HTTP."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.pages import Page
from terracrew.api.schedules import NewSchedule, ScheduleChange, ScheduleView, StartedSchedule
from terracrew.server.api.context import RunsCall
from terracrew.server.paging import After, Limit
from terracrew.server.schedules import service

AtPlace = Annotated[str, QueryParameter(description="Only those of this group or module itself, by its path or id")]


@get("/schedules", summary="List schedules")
async def listing(request: RunsCall, place: AtPlace = "", after: After = None, limit: Limit = 50) -> Page[ScheduleView]:
    """List the schedules of groups and modules that the caller may see."""
    return await request.read_in_background(service.listing, place, after, limit)


@post("/schedules", summary="Create a schedule")
async def create(request: RunsCall, data: JSONBody[NewSchedule]) -> ScheduleView:
    """Create a schedule of a group or module in which the caller may run jobs. It starts jobs as the caller, with the permissions that
    the caller has then."""
    return await request.write(service.create, data)


@get("/schedules/{schedule:str}", summary="Show a schedule")
async def show(request: RunsCall, schedule: FromPath[str]) -> ScheduleView:
    """Show a schedule with its next time, and with what it started last or why it started nothing."""
    return await request.read(service.show, schedule)


@patch("/schedules/{schedule:str}", summary="Change a schedule")
async def change(request: RunsCall, schedule: FromPath[str], data: JSONBody[ScheduleChange]) -> ScheduleView:
    """Change a schedule. From then on it starts jobs as the caller."""
    return await request.write(service.change, schedule, data)


@delete("/schedules/{schedule:str}", summary="Delete a schedule")
async def remove(request: RunsCall, schedule: FromPath[str]) -> None:
    """Delete a schedule. What it has started goes on."""
    await request.write(service.delete, schedule)


@post("/schedules/{schedule:str}/run", status_code=200, summary="Run a schedule now")
async def run(request: RunsCall, schedule: FromPath[str]) -> StartedSchedule:
    """Start now what a schedule is for, as the caller. Its next time stays."""
    return await request.write(service.run, schedule, request.context.sources)
