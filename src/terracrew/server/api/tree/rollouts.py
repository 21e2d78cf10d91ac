"""Roll-outs over HTTP: the update of many runners in waves, and of a single one."""

from typing import Annotated

from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter
from litestar.status_codes import HTTP_200_OK

from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.pages import Page
from terracrew.api.rollouts import NewRollout, RolloutPreview, RolloutSummary, RolloutView, RunnerUpdate
from terracrew.server.api.context import TreeCall
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit
from terracrew.server.rollouts import service


@get("/rollouts", summary="List roll-outs")
async def listing(request: TreeCall, after: After = None, limit: Limit = 20) -> Page[RolloutSummary]:
    """List the roll-outs of the organization with a runner that you may see, the newest first. Only such runners count."""
    return await request.read_in_background(service.listing, after, limit)


@get("/rollouts/preview", summary="Show what updating all runners would do")
async def preview(
    request: TreeCall,
    group: Annotated[str, QueryParameter(max_length=1000, description="Only runners in this group and below it")] = "",
) -> RolloutPreview:
    """Show which of the runners that you may change are outdated, in which wave each would be updated, and which of them a person has
    to update, why, and with which command. Nothing is changed."""
    return await request.read_in_background(service.preview, request.context.rollout_rules, group)


@post("/rollouts", summary="Update all outdated runners")
async def start(request: TreeCall, data: JSONBody[NewRollout]) -> RolloutView:
    """Start a roll-out of the latest release with the outdated runners that you may change: one first, then waves of 2, 4, 8 and so on.
    An organization has one open roll-out at a time."""
    return await request.write(service.start, request.context.rollout_rules, data)


@get("/rollouts/{rollout:str}", summary="Show a roll-out")
async def show(request: TreeCall, rollout: FromPath[str]) -> RolloutView:
    """Show a roll-out with those of its runners that you may see. `latest` is the newest one."""
    return await request.read_in_background(service.show, rollout)


@post("/rollouts/{rollout:str}/pause", summary="Pause a roll-out", status_code=HTTP_200_OK)
async def pause(request: TreeCall, rollout: FromPath[str]) -> RolloutView:
    """Start no further update until it is resumed. Updates that run go on. You must be able to change all of its runners."""
    return await request.write(service.pause, rollout)


@post("/rollouts/{rollout:str}/resume", summary="Resume a roll-out", status_code=HTTP_200_OK)
async def resume(request: TreeCall, rollout: FromPath[str]) -> RolloutView:
    """Go on with a roll-out that was paused or stopped, if its release is still the latest one. Runners that failed are updated again."""
    return await request.write(service.resume, request.context.rollout_rules, rollout)


@post("/rollouts/{rollout:str}/stop", summary="Stop a roll-out", status_code=HTTP_200_OK)
async def stop(request: TreeCall, rollout: FromPath[str]) -> RolloutView:
    """End a roll-out. Updates that run go on; runners that wait are not updated."""
    return await request.write(service.stop, rollout)


@post("/runners/{runner:str}/update", summary="Update a runner to a release")
async def update(request: TreeCall, runner: FromPath[str], data: JSONBody[RunnerUpdate]) -> FleetJob:
    """Queue the update of one runner. The answer is the job of the fleet that does it. Running jobs finish first."""
    return await request.write(service.update_runner, request.context.rollout_rules, tree_path(runner), data)
