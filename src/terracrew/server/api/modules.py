"""Modules over HTTP."""

from litestar import Router, delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew.server.db.seam import Tx
from terracrew.server.http.request import Call, tree_path
from terracrew.server.modules import archives, contents, hidden_values, service
from terracrew.server.modules.model import Module, ModuleChange, NewModule
from terracrew.server.paging import After, Limit, Page
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import module_standing
from terracrew.server.runs.module_standing import ModuleView


@get("/modules", summary="List modules")
async def listing(
    request: Call,
    group: FromQuery[str | None] = None,
    recursive: FromQuery[bool] = False,
    after: After = None,
    limit: Limit = 50,
) -> Page[Module]:
    """Those of a group, with `recursive=true` of all below it too, or of the whole organization."""
    who = request.user
    return await request.server.db.read_in_background(
        lambda tx: service.listing(tx, who, group, recursive, after, limit)
    )


@post("/modules", summary="Create a module")
async def create(request: Call, data: JSONBody[NewModule]) -> Module:
    """Create a module in a group that exists, from a source that was uploaded or that lies on the runners."""
    who, roots, keys = request.user, request.server.settings.local_roots, request.server.keys
    return await request.server.db.write(lambda tx: service.create(tx, who, data, roots, keys))


@get("/modules/{module:str}", summary="Show a module")
async def show(request: Call, module: FromPath[str]) -> ModuleView:
    """With what stands in the way of its jobs: doubts, states in quarantine, and who holds its lock."""

    async def read(tx: Tx) -> ModuleView:
        found = await service.find(tx, request.user, tree_path(module), Verb.TREE_READ)
        return await module_standing.view(
            tx, hidden_values.shown(found, await contents.load(tx, request.server.keys, found.id))
        )

    return await request.server.db.read_in_background(read)


@patch("/modules/{module:str}", summary="Change a module")
async def change(request: Call, module: FromPath[str], data: JSONBody[ModuleChange]) -> Module:
    """Change what is given and keep the rest. Inputs, environment and audiences are replaced as a whole."""
    who, roots, keys = request.user, request.server.settings.local_roots, request.server.keys
    return await request.server.db.write(lambda tx: service.change(tx, who, tree_path(module), data, roots, keys))


@delete("/modules/{module:str}", summary="Delete a module")
async def remove(request: Call, module: FromPath[str], force: FromQuery[bool] = False) -> None:
    """With `force=true`, its jobs, logs and states too. What it has built is not touched.

    The module is gone when this is answered. What was kept for it is removed afterwards, a little at a time.
    """
    who = request.user
    await request.server.db.write(lambda tx: service.delete(tx, who, tree_path(module), force))


handlers = [listing, create, show, change, remove, archives.upload]
router = Router(path="/api/v1", route_handlers=handlers, tags=["modules"])
