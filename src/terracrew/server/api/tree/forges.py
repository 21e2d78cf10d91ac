"""Connections to forges over HTTP: the ways to repositories, their pull requests and comments."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.forges import (
    ForgeChange,
    ForgeDeliveryView,
    ForgeHookSecret,
    ForgeRepositoryView,
    ForgeTestRequest,
    ForgeTestResult,
    ForgeView,
    NewForge,
    NewForgeRepository,
)
from terracrew.api.pages import Page
from terracrew.server.api.context import TreeCall
from terracrew.server.forges import service
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit


@get("/forges", summary="List connections to forges")
async def list_forges(request: TreeCall, after: After = None, limit: Limit = 50) -> Page[ForgeView]:
    """List the connections of the groups that the caller may see, and whether each works."""
    return await request.read(request.context.forges.listing, after, limit)


@post("/forges", summary="Create a connection to a forge")
async def create(request: TreeCall, data: JSONBody[NewForge]) -> ForgeView:
    """Create a connection for the modules of a group and of the groups below it. Its token or key is stored encrypted and cannot be read
    back.
    """
    return await request.context.forges.create(request.user, data)


@get("/forges/{forge:str}", summary="Show a connection to a forge")
async def show(request: TreeCall, forge: FromPath[str]) -> ForgeView:
    """Show a connection, by its id or its path (`group/name`), and what is wrong with it."""
    return await request.read(request.context.forges.show, tree_path(forge))


@patch("/forges/{forge:str}", summary="Change a connection to a forge")
async def update(request: TreeCall, forge: FromPath[str], data: JSONBody[ForgeChange]) -> ForgeView:
    """Change a connection. A token or key that is left out or empty stays; a new one is used at once."""
    return await request.context.forges.change(request.user, tree_path(forge), data)


@delete("/forges/{forge:str}", summary="Delete a connection to a forge")
async def remove(request: TreeCall, forge: FromPath[str]) -> None:
    """Delete a connection, with everything that is known of its repositories and their pull requests."""
    await request.write(service.delete, tree_path(forge))


@post("/forges/{forge:str}/test", status_code=200, summary="Test a connection to a forge")
async def test(request: TreeCall, forge: FromPath[str], data: JSONBody[ForgeTestRequest]) -> ForgeTestResult:
    """Ask the forge what the connection may do, and say how to give what is missing. Nothing is changed there."""
    return await request.context.forges.test(request.user, tree_path(forge), data.repository)


@post("/forges/{forge:str}/hook-secret", summary="Replace the secret of the hooks")
async def replace_hook_secret(request: TreeCall, forge: FromPath[str]) -> ForgeHookSecret:
    """Make another secret for the hooks of a connection, and show it this once, for hooks that people make by themselves. The earlier one
    ends at once. Hooks that the server makes get the new one within moments.
    """
    return await request.context.forges.replace_hook_secret(request.user, tree_path(forge))


@get("/forges/{forge:str}/repositories", summary="List the repositories of a connection")
async def list_repositories(
    request: TreeCall, forge: FromPath[str], after: After = None, limit: Limit = 50
) -> Page[ForgeRepositoryView]:
    """List the repositories that a connection watches, with the state of their hooks."""
    return await request.read(service.list_repositories, tree_path(forge), after, limit)


@post("/forges/{forge:str}/repositories", summary="Add a repository to a connection")
async def add_repository(
    request: TreeCall, forge: FromPath[str], data: JSONBody[NewForgeRepository]
) -> ForgeRepositoryView:
    """Watch a repository that no module has as its source yet. Those that modules have as their sources are watched by themselves."""
    return await request.write(service.add_repository, tree_path(forge), data.name)


@delete("/forges/{forge:str}/repositories/{repository:str}", summary="Remove a repository from a connection")
async def remove_repository(request: TreeCall, forge: FromPath[str], repository: FromPath[str]) -> None:
    """Watch a repository no longer that somebody has added, by its id or name. While modules have it as their source, it stays."""
    await request.write(service.remove_repository, tree_path(forge), tree_path(repository))


@post(
    "/forges/{forge:str}/repositories/{repository:str}/hook", status_code=200, summary="Repair the hook of a repository"
)
async def repair_hook(request: TreeCall, forge: FromPath[str], repository: FromPath[str]) -> ForgeRepositoryView:
    """Make the hook of a repository, or repair and enable the one that there is. This also happens by itself every hour."""
    return await request.context.forges.repair_hook(request.user, tree_path(forge), tree_path(repository))


@get("/forges/{forge:str}/deliveries", summary="List what a forge has delivered")
async def list_deliveries(
    request: TreeCall,
    forge: FromPath[str],
    after: After = None,
    limit: Annotated[int, QueryParameter(description="How many of the newest ones", ge=1, le=100)] = 50,
) -> Page[ForgeDeliveryView]:
    """List what was delivered by hooks within the last week, the newest first, and what became of it."""
    return await request.read(service.list_deliveries, tree_path(forge), after, limit)


@post(
    "/forges/{forge:str}/deliveries/{delivery:str}/handle-again",
    status_code=200,
    summary="Handle a delivery again",
)
async def handle_again(request: TreeCall, forge: FromPath[str], delivery: FromPath[str]) -> ForgeDeliveryView:
    """Ask the forge once more about what a delivery was about."""
    return await request.write(service.handle_again, tree_path(forge), delivery)
