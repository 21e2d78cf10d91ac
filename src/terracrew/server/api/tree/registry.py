"""Published modules and their versions over HTTP."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.pages import Page
from terracrew.api.registry import (
    MAX_VERSION_CHARACTERS,
    NewPublishedModule,
    NewPublishedVersion,
    PublishedModuleChange,
    PublishedModuleDetails,
    PublishedModuleUse,
    PublishedModuleView,
    PublishedVersionChange,
    PublishedVersionDetails,
    PublishedVersionView,
)
from terracrew.server.api.context import TreeCall
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit
from terracrew.server.registry import publishing, service, uses

Search = Annotated[str, QueryParameter(description="Words that the path or the description must contain")]
OfVersion = Annotated[
    str, QueryParameter(max_length=MAX_VERSION_CHARACTERS, description="Only those that have fetched this version")
]
OfGroup = Annotated[str, QueryParameter(description="Only those of this group and below, by its path")]


@get("/published-modules", summary="List published modules")
async def listing(
    request: TreeCall, search: Search = "", group: OfGroup = "", after: After = None, limit: Limit = 50
) -> Page[PublishedModuleView]:
    """List the published modules that the caller may use, in the order of their paths."""
    return await request.read_in_background(service.listing, search, group, after, limit)


@post("/published-modules", summary="Create a published module")
async def create(request: TreeCall, data: JSONBody[NewPublishedModule]) -> PublishedModuleView:
    """Make a published module of a group, without a version. It takes the right to change the group."""
    return await request.write(service.create, data)


@get("/published-modules/{published:str}", summary="Show a published module")
async def show(request: TreeCall, published: FromPath[str]) -> PublishedModuleDetails:
    """Show a published module, by its id or its path (`group/name/system`), with its versions, the highest first."""
    return await request.read_in_background(service.show, tree_path(published))


@patch("/published-modules/{published:str}", summary="Change a published module")
async def update(
    request: TreeCall, published: FromPath[str], data: JSONBody[PublishedModuleChange]
) -> PublishedModuleView:
    """Change a published module. Versions that exist stay as they are."""
    return await request.write(service.change, tree_path(published), data)


@delete("/published-modules/{published:str}", summary="Delete a published module")
async def remove(request: TreeCall, published: FromPath[str]) -> None:
    """Delete a published module whose versions are all withdrawn."""
    await request.write(service.delete, tree_path(published))


@post("/published-modules/{published:str}/look", status_code=200, summary="Look at the tags now")
async def look(request: TreeCall, published: FromPath[str]) -> PublishedModuleView:
    """Let the tags of the repository be looked at now. New versions are there within moments."""
    return await request.write(service.look, tree_path(published))


@post("/published-modules/{published:str}/versions", summary="Publish a version")
async def publish(
    request: TreeCall, published: FromPath[str], data: JSONBody[NewPublishedVersion]
) -> PublishedVersionView:
    """Publish an archive, which was uploaded before (`POST /archives`), as a version. It never changes afterwards. The same archive may
    be sent again as the same version."""
    return await publishing.publish(request.context.publishing, request.user, tree_path(published), data)


@get("/published-modules/{published:str}/uses", summary="List who uses a published module")
async def list_uses(
    request: TreeCall, published: FromPath[str], version: OfVersion = "", after: After = None, limit: Limit = 50
) -> Page[PublishedModuleUse]:
    """List the modules whose jobs have fetched a version with their own tokens, those that did last first. Modules that the caller may
    not see are left out, and so is what was fetched at a prompt."""
    return await request.read_in_background(uses.listing, tree_path(published), version, after, limit)


@get("/published-modules/{published:str}/versions/{exactly:str}", summary="Show a version")
async def show_version(request: TreeCall, published: FromPath[str], exactly: FromPath[str]) -> PublishedVersionDetails:
    """Show a version with what its files say of inputs, outputs, requirements and examples."""
    return await request.read_in_background(service.show_version, tree_path(published), exactly)


@patch("/published-modules/{published:str}/versions/{exactly:str}", summary="Withdraw a version, or give it back")
async def change_version(
    request: TreeCall, published: FromPath[str], exactly: FromPath[str], data: JSONBody[PublishedVersionChange]
) -> PublishedVersionView:
    """Withdraw a version: no engine gets it any more, and its number stays taken. Or give a withdrawn one back."""
    return await request.write(service.change_version, tree_path(published), exactly, data)
