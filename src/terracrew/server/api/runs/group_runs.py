"""Runs of whole groups over HTTP."""

from litestar import get, post
from litestar.params import FromPath, JSONBody

from terracrew.api.group_runs import AppliedPlans, GroupRun, GroupRunView, NewGroupRun
from terracrew.api.pages import Page
from terracrew.server.api.context import RunsCall
from terracrew.server.db.seam import Tx, Work
from terracrew.server.group_runs import service
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit


@get("/groups/{group:str}/runs", summary="List the runs of a group")
async def listing(request: RunsCall, group: FromPath[str], after: After = None, limit: Limit = 50) -> Page[GroupRun]:
    """List the runs of all modules of a group, the newest first."""
    return await request.read_in_background(service.listing, tree_path(group), after, limit)


@post("/groups/{group:str}/runs", summary="Run a whole group")
async def begin(request: RunsCall, group: FromPath[str], data: JSONBody[NewGroupRun]) -> GroupRunView:
    """Plan, apply or destroy all modules in a group and below it, the last two in the order of their dependencies.

    The server queues the job of a module when those of the modules before it have succeeded. What depends on a module that
    failed is not run. Jobs wait for runners and approvals like all others.
    """
    return await request.context.db.write(
        _view(request, lambda tx: service.begin(tx, request.user, tree_path(group), data))
    )


@get("/groups/{group:str}/runs/{run:str}", summary="Show a run of a group")
async def show(request: RunsCall, group: FromPath[str], run: FromPath[str]) -> GroupRunView:
    """Show a run with its modules, their jobs, and why these wait."""
    return await request.context.db.read(
        _view(request, lambda tx: service.find(tx, request.user, tree_path(group), run))
    )


@post("/groups/{group:str}/runs/{run:str}/apply", status_code=200, summary="Apply the plans of a run of a group")
async def apply(request: RunsCall, group: FromPath[str], run: FromPath[str]) -> AppliedPlans:
    """Apply the plans that a PLAN of a group has made, exactly as they are, each by a job of its own.

    A plan whose state, source or inputs have changed since is left out, with the reason.
    """
    context = request.context
    return await service.apply_plans(context.db, context.apply_plan, request.user, tree_path(group), run)


@post("/groups/{group:str}/runs/{run:str}/resume", status_code=200, summary="Resume a run of a group")
async def resume(request: RunsCall, group: FromPath[str], run: FromPath[str]) -> GroupRunView:
    """Run again what did not succeed in a run that has failed or was stopped. What has succeeded is not repeated."""
    return await request.context.db.write(
        _view(request, lambda tx: service.resume(tx, request.user, tree_path(group), run))
    )


@post("/groups/{group:str}/runs/{run:str}/stop", status_code=200, summary="Stop a run of a group")
async def stop(request: RunsCall, group: FromPath[str], run: FromPath[str]) -> GroupRunView:
    """Queue no more jobs of a run. Those that have not started are canceled; those that have started end by themselves."""
    return await request.context.db.write(
        _view(request, lambda tx: service.stop(tx, request.user, tree_path(group), run))
    )


def _view(request: RunsCall, find: Work[GroupRun]) -> Work[GroupRunView]:
    """Return a unit of work that shows the run which `find` finds, starts or changes."""

    async def work(tx: Tx) -> GroupRunView:
        return await service.view(tx, await find(tx), request.context.watch.for_reader(request.user))

    return work
