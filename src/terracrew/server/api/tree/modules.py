"""Modules over HTTP, and the archives that their sources come from."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, FromQuery, HeaderParameter, JSONBody, QueryParameter

from terracrew.api.inputs import Dependency
from terracrew.api.locks import MAX_TEXT_CHARACTERS, TakeLock
from terracrew.api.module_views import ModuleListed, ModuleView, NewestJobStatus
from terracrew.api.modules import Archive, Module, ModuleChange, ModuleMove, NewModule
from terracrew.api.pages import Page
from terracrew.protocol.transfers import HEADER
from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.group_runs import service as group_runs
from terracrew.server.http.request import tree_path
from terracrew.server.jobs import module_outputs
from terracrew.server.paging import After, Limit
from terracrew.server.principals import authorize
from terracrew.server.principals.authorize import Verb
from terracrew.server.runs import module_view
from terracrew.server.state import locks
from terracrew.server.tree.inputs import dependencies
from terracrew.server.tree.inputs.dependencies import Direction
from terracrew.server.tree.modules import archives, contents, output_references, service
from terracrew.server.tree.modules.reads import ModuleFilter
from terracrew.server.uploads import service as uploads

SearchedWords = Annotated[
    str, QueryParameter(max_length=200, description="Words that the path, the description or the team must contain")
]
StatusOfNewest = Annotated[
    NewestJobStatus | None,
    QueryParameter(description="The status of the newest job; `open` for any that has not ended, `none` for no job"),
]
EngineName = Annotated[str, QueryParameter(max_length=100, description="The name of the engine")]
RunnerOfModule = Annotated[
    str,
    QueryParameter(max_length=2000, description="The path of the runner that is chosen, or that had the newest job"),
]
NeedsAttention = Annotated[
    bool,
    QueryParameter(description="Only modules in doubt, with a state in quarantine, or with the lock of a lost job"),
]


@get("/modules", summary="List modules")
async def listing(
    request: TreeCall,
    group: FromQuery[str | None] = None,
    recursive: FromQuery[bool] = False,
    search: SearchedWords = "",
    status: StatusOfNewest = None,
    engine: EngineName = "",
    runner: RunnerOfModule = "",
    attention: NeedsAttention = False,
    after: After = None,
    limit: Limit = 50,
) -> Page[ModuleListed]:
    """List the modules of a group, with `recursive=true` also of all groups below it, or of the whole organization, each with its
    newest job. A search or a filter always looks below the group, too, and its answer is ordered by group and name."""
    wanted = ModuleFilter(status or "", engine, runner, attention)

    async def read(tx: Tx) -> Page[ModuleListed]:
        found = await service.listing(tx, request.user, group, recursive, after, limit, search, wanted)
        return Page(await module_view.listed(tx, found.items), found.next)

    return await request.context.db.read_in_background(read)


@post("/modules", summary="Create a module")
async def create(
    request: TreeCall,
    data: JSONBody[NewModule],
    lock_id: Annotated[
        str, QueryParameter(max_length=MAX_TEXT_CHARACTERS, description="Lock it in the same step, with this id")
    ] = "",
    lock_reason: Annotated[str, QueryParameter(max_length=MAX_TEXT_CHARACTERS, description="Why it is locked")] = "",
) -> Module:
    """Create a module in a group that exists, from a source that was uploaded or that lies on the runners.

    With `lock_id`, you hold its lock from the first moment: no job of it starts before you have brought its state.
    """
    context = request.context

    async def work(tx: Tx) -> Module:
        made = await service.create(tx, request.user, data, context.settings.local_roots, context.keys)
        if lock_id:
            await locks.take(tx, request.user, made.id, TakeLock(reason=lock_reason, client_lock_id=lock_id))
        return made

    return await context.db.write(work)


@get("/modules/{module:str}", summary="Show a module")
async def show(request: TreeCall, module: FromPath[str]) -> ModuleView:
    """Show a module and what blocks its jobs: doubts, states in quarantine, and who holds its lock."""

    async def read(tx: Tx) -> ModuleView:
        found = await service.find(tx, request.user, tree_path(module), request.verb(Verb.TREE_READ))
        shown = contents.shown(found, await contents.load(tx, request.context.keys, found.id))
        return await module_view.view(tx, shown, request.user)

    return await request.context.db.read_in_background(read)


@get("/modules/{module:str}/dependencies", summary="List the dependencies of a module")
async def list_dependencies(
    request: TreeCall,
    module: FromPath[str],
    direction: FromQuery[Direction] = "needs",
    after: After = None,
    limit: Limit = 50,
) -> Page[Dependency]:
    """List the outputs of other modules that a module uses, or with `direction=used_by` the modules that use its outputs.

    A module that you may not see has no path in the first list, and is left out of the second one, unless you own the module.
    """
    who = request.user

    async def read(tx: Tx) -> Page[Dependency]:
        found = await service.find(tx, who, tree_path(module), Verb.TREE_READ)
        place = authorize.module(found.organization_id, found.path)
        return await dependencies.listing(tx, who, found.id, place, direction, after, limit)

    return await request.context.db.read_in_background(read)


@delete("/modules/{module:str}/dependencies/{dependency:str}", summary="End the use of an output")
async def end_dependency(request: TreeCall, module: FromPath[str], dependency: FromPath[str]) -> None:
    """End the use of an output of this module by another one (`direction=used_by`). Jobs of the other module wait from then on, until
    somebody who may read the state of this module sets the input again, or it is removed."""
    await request.write(output_references.end, tree_path(module), dependency)


@patch("/modules/{module:str}", summary="Change a module")
async def change(request: TreeCall, module: FromPath[str], data: JSONBody[ModuleChange]) -> Module:
    """Change what is given and keep the rest. Inputs, environment and audiences are replaced as a whole."""
    roots, keys = request.context.settings.local_roots, request.context.keys
    return await request.write(service.change, tree_path(module), data, roots, keys)


@post("/modules/{module:str}/move", status_code=200, summary="Move a module")
async def move(request: TreeCall, module: FromPath[str], data: JSONBody[ModuleMove]) -> Module:
    """Rename a module, or move it to another group of its organization. It keeps its jobs, states, inputs and roles.

    From then on the rules, inputs, hooks and runners of its new groups apply. You must own every group that it leaves, and the new one.
    The module must have no unfinished job, and no runner or service account of its own that belongs to a group that it leaves.
    """
    keys = request.context.keys

    async def work(tx: Tx) -> Module:
        moved = await group_runs.move_module(tx, request.user, tree_path(module), data.path)
        return contents.shown(moved, await contents.load(tx, keys, moved.id))

    return await request.context.db.write(work)


@delete("/modules/{module:str}", summary="Delete a module")
async def remove(request: TreeCall, module: FromPath[str], force: FromQuery[bool] = False) -> None:
    """Delete a module, with `force=true` also its jobs, logs and states. The resources that it has created are not touched.

    If other modules use its outputs, `force=true` is required, too. Their jobs fail from then on, except those that destroy: these are
    given the last values of the outputs.

    The module is gone when this is answered. What was kept for it is removed afterwards, a little at a time.
    """
    keys = request.context.keys
    await request.context.db.write(
        lambda tx: module_outputs.delete_module(tx, keys, request.user, tree_path(module), force=force)
    )


@post("/archives", summary="Upload a source", request_max_body_size=archives.MAX_ARCHIVE_BYTES)
async def upload(request: TreeCall, staged: Annotated[str, HeaderParameter(name=HEADER)] = "") -> Archive:
    """Upload a tar.gz archive. One that would write outside its folder, or unpack to too much, is refused.

    One that is too large for a proxy on the way is staged before (`PUT /uploads`) and named in the header X-Upload.
    """
    context, who = request.context, request.user
    organization_id = await archives.require(context.db, who)
    body = await uploads.body(context.staging, request.stream(), who.id, staged, archives.TARGET)
    return await archives.keep(context.staging, context.quotas, context.settings.uploads, who, organization_id, body)
