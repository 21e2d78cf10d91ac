"""What groups and modules add to the steps of their jobs, over HTTP."""

from collections.abc import Awaitable, Callable

from litestar import delete, get, put
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew.api.steps import NewStepSettings, StepSettings
from terracrew.protocol.spec import Step
from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.principals.authorize import Verb
from terracrew.server.principals.model import Principal
from terracrew.server.tree.inputs.model import InputPlace
from terracrew.server.tree.modules import step_settings

_Find = Callable[[Tx, Principal, str, Verb], Awaitable[InputPlace]]
"""Finds the group or the module of a path, if the caller may do this there."""


@get("/groups/{group:str}/steps", summary="Show what a group adds to steps")
async def of_group(request: TreeCall, group: FromPath[str], inherited: FromQuery[bool] = False) -> list[StepSettings]:
    """List the hooks and flags of a group; with `inherited=true`, also those of the groups above it, the highest first."""
    return await _listed(request, step_settings.group, group, is_inherited=inherited)


@put("/groups/{group:str}/steps/{step:str}", summary="Add to a step of a group's jobs")
async def put_of_group(
    request: TreeCall, group: FromPath[str], step: FromPath[Step], data: JSONBody[NewStepSettings]
) -> StepSettings:
    """Replace the hooks and flags that a group adds to a step of all jobs in and below it."""
    return await _put(request, step_settings.group, group, step, data)


@delete("/groups/{group:str}/steps/{step:str}", summary="Add nothing to a step of a group's jobs")
async def remove_of_group(request: TreeCall, group: FromPath[str], step: FromPath[Step]) -> None:
    """Remove the hooks and flags that a group adds to a step."""
    await _remove(request, step_settings.group, group, step)


@get("/modules/{module:str}/steps", summary="Show what a module adds to steps")
async def of_module(request: TreeCall, module: FromPath[str], inherited: FromQuery[bool] = False) -> list[StepSettings]:
    """List the hooks and flags of a module; with `inherited=true`, also those of the groups above it, the highest first."""
    return await _listed(request, step_settings.module, module, is_inherited=inherited)


@put("/modules/{module:str}/steps/{step:str}", summary="Add to a step of a module's jobs")
async def put_of_module(
    request: TreeCall, module: FromPath[str], step: FromPath[Step], data: JSONBody[NewStepSettings]
) -> StepSettings:
    """Replace the hooks and flags that a module adds to a step of its jobs."""
    return await _put(request, step_settings.module, module, step, data)


@delete("/modules/{module:str}/steps/{step:str}", summary="Add nothing to a step of a module's jobs")
async def remove_of_module(request: TreeCall, module: FromPath[str], step: FromPath[Step]) -> None:
    """Remove the hooks and flags that a module adds to a step."""
    await _remove(request, step_settings.module, module, step)


async def _listed(request: TreeCall, find: _Find, path: str, *, is_inherited: bool) -> list[StepSettings]:
    async def work(tx: Tx) -> list[StepSettings]:
        place = await find(tx, request.user, tree_path(path), Verb.TREE_READ)
        return await step_settings.of_place(tx, place, is_inherited=is_inherited)

    return await request.context.db.read(work)


async def _put(request: TreeCall, find: _Find, path: str, step: Step, wanted: NewStepSettings) -> StepSettings:
    async def work(tx: Tx) -> StepSettings:
        place = await find(tx, request.user, tree_path(path), Verb.TREE_WRITE)
        return await step_settings.put(tx, request.user, place, step, wanted)

    return await request.context.db.write(work)


async def _remove(request: TreeCall, find: _Find, path: str, step: Step) -> None:
    async def work(tx: Tx) -> None:
        place = await find(tx, request.user, tree_path(path), Verb.TREE_WRITE)
        await step_settings.remove(tx, request.user, place, step)

    await request.context.db.write(work)
