"""Groups over HTTP."""

from litestar import delete, get, patch, post
from litestar.params import FromPath, FromQuery, JSONBody

from terracrew.api.groups import Group, GroupChange, GroupView, NewGroup
from terracrew.api.pages import Page
from terracrew.server.api.context import TreeCall
from terracrew.server.db.seam import Tx
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit
from terracrew.server.registry import service as registry
from terracrew.server.tree.groups import inheritance, reads, service


@get("/groups", summary="List groups")
async def listing(
    request: TreeCall, parent: FromQuery[str | None] = None, after: After = None, limit: Limit = 50
) -> Page[Group]:
    """List the groups directly in `parent` (empty: the organization), or all of them."""
    return await request.read_in_background(service.listing, parent, after, limit)


@post("/groups", summary="Create a group")
async def create(request: TreeCall, data: JSONBody[NewGroup], parents: FromQuery[bool] = False) -> Group:
    """Create a group and, with `parents=true`, its missing parent groups."""
    return await request.write(service.create, data, parents)


@get("/groups/{group:str}", summary="Show a group")
async def show(request: TreeCall, group: FromPath[str]) -> GroupView:
    """Show a group by its path or id, with the approval rules that apply in it."""

    async def read(tx: Tx) -> GroupView:
        found = await service.show(tx, request.user, tree_path(group))
        return inheritance.view(await reads.lineage(tx, found.id))

    return await request.context.db.read(read)


@patch("/groups/{group:str}", summary="Change a group")
async def change(request: TreeCall, group: FromPath[str], data: JSONBody[GroupChange]) -> Group:
    """Change a group. The organization itself is a group, too, and is named by its id."""
    return await request.write(service.change, tree_path(group), data)


@delete("/groups/{group:str}", summary="Delete an empty group")
async def remove(request: TreeCall, group: FromPath[str]) -> None:
    """Delete a group that has neither groups, modules nor runners in it."""
    await request.write(registry.delete_group, tree_path(group))
