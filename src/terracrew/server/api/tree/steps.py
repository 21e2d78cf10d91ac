"""What groups and modules add to the steps of their jobs, over HTTP."""

from litestar import Router, delete, get, put
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew.protocol.spec import Step
from terracrew.server.api.tree.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.modules import step_settings
from terracrew.server.principals.authorize import Verb
from terracrew.server.step_settings.model import NewStepSettings, StepSettings


@get("/groups/{group:str}/steps", summary="Show what a group adds to steps")
async def of_group(request: TreeCall, group: FromPath[str], inherited: FromQuery[bool] = False) -> list[StepSettings]:
    """List the hooks and flags of a group; with `inherited=true`, also those of the groups above it, the highest first."""
    who, db = request.user, request.context.db
    place = await db.read(lambda tx: step_settings.group(tx, who, tree_path(group), Verb.TREE_READ))
    return await db.read(lambda tx: step_settings.of_place(tx, place, is_inherited=inherited))


@put("/groups/{group:str}/steps/{step:str}", summary="Add to a step of a group's jobs")
async def put_of_group(
    request: TreeCall, group: FromPath[str], step: FromPath[Step], data: JSONBody[NewStepSettings]
) -> StepSettings:
    """Replace the hooks and flags that a group adds to a step of all jobs in and below it."""
    who = request.user

    async def work(tx: Tx) -> StepSettings:
        place = await step_settings.group(tx, who, tree_path(group), Verb.TREE_WRITE)
        return await step_settings.put(tx, who, place, step, data)

    return await request.context.db.write(work)


@delete("/groups/{group:str}/steps/{step:str}", summary="Add nothing to a step of a group's jobs")
async def remove_of_group(request: TreeCall, group: FromPath[str], step: FromPath[Step]) -> None:
    """Remove the hooks and flags that a group adds to a step."""
    who = request.user

    async def work(tx: Tx) -> None:
        place = await step_settings.group(tx, who, tree_path(group), Verb.TREE_WRITE)
        await step_settings.remove(tx, who, place, step)

    await request.context.db.write(work)


@get("/modules/{module:str}/steps", summary="Show what a module adds to steps")
async def of_module(request: TreeCall, module: FromPath[str], inherited: FromQuery[bool] = False) -> list[StepSettings]:
    """List the hooks and flags of a module; with `inherited=true`, also those of the groups above it, the highest first."""
    who, db = request.user, request.context.db
    place = await db.read(lambda tx: step_settings.module(tx, who, tree_path(module), Verb.TREE_READ))
    return await db.read(lambda tx: step_settings.of_place(tx, place, is_inherited=inherited))


@put("/modules/{module:str}/steps/{step:str}", summary="Add to a step of a module's jobs")
async def put_of_module(
    request: TreeCall, module: FromPath[str], step: FromPath[Step], data: JSONBody[NewStepSettings]
) -> StepSettings:
    """Replace the hooks and flags that a module adds to a step of its jobs."""
    who = request.user

    async def work(tx: Tx) -> StepSettings:
        place = await step_settings.module(tx, who, tree_path(module), Verb.TREE_WRITE)
        return await step_settings.put(tx, who, place, step, data)

    return await request.context.db.write(work)


@delete("/modules/{module:str}/steps/{step:str}", summary="Add nothing to a step of a module's jobs")
async def remove_of_module(request: TreeCall, module: FromPath[str], step: FromPath[Step]) -> None:
    """Remove the hooks and flags that a module adds to a step."""
    who = request.user

    async def work(tx: Tx) -> None:
        place = await step_settings.module(tx, who, tree_path(module), Verb.TREE_WRITE)
        await step_settings.remove(tx, who, place, step)

    await request.context.db.write(work)


router = Router(
    path="/api/v1",
    route_handlers=[of_group, put_of_group, remove_of_group, of_module, put_of_module, remove_of_module],
    tags=["steps"],
)
