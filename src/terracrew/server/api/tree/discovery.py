"""Discovery rules over HTTP."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.discovery import (
    DiscoveryChange,
    DiscoveryPreview,
    DiscoveryRuleDetails,
    DiscoveryRuleView,
    NewDiscoveryRule,
)
from terracrew.api.pages import Page
from terracrew.server.api.context import TreeCall
from terracrew.server.discovery import service
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit

OfGroup = Annotated[str, QueryParameter(description="Only those of this group itself, by its path or id")]


@get("/discovery-rules", summary="List discovery rules")
async def listing(
    request: TreeCall, group: OfGroup = "", after: After = None, limit: Limit = 50
) -> Page[DiscoveryRuleView]:
    """List the rules of the groups that the caller may see, and whether each works."""
    return await request.read_in_background(service.listing, group, after, limit)


@post("/discovery-rules", summary="Create a discovery rule")
async def create(request: TreeCall, data: JSONBody[NewDiscoveryRule]) -> DiscoveryRuleView:
    """Create a rule that makes modules in a group from the folders of a repository. It takes the right to change the group, and acts for
    the group from then on."""
    return await request.write(service.create, data)


@post("/discovery-rules/preview", status_code=200, summary="Preview a discovery rule")
async def preview(request: TreeCall, data: JSONBody[NewDiscoveryRule]) -> DiscoveryPreview:
    """Show what a new rule would make of the newest commit. Nothing is made."""
    return await service.preview(request.context.discovery, request.user, data)


@get("/discovery-rules/{rule:str}", summary="Show a discovery rule")
async def show(request: TreeCall, rule: FromPath[str]) -> DiscoveryRuleDetails:
    """Show a rule, by its id or its path (`group/name`), with the folders that it has found and what became of each."""
    return await request.read(service.show, tree_path(rule))


@patch("/discovery-rules/{rule:str}", summary="Change a discovery rule")
async def update(request: TreeCall, rule: FromPath[str], data: JSONBody[DiscoveryChange]) -> DiscoveryRuleView:
    """Change a rule. Modules that it has made stay as they are."""
    return await request.write(service.change, tree_path(rule), data)


@delete("/discovery-rules/{rule:str}", summary="Delete a discovery rule")
async def remove(request: TreeCall, rule: FromPath[str]) -> None:
    """Delete a rule. The modules that it has made stay, and nobody looks at their folders any more."""
    await request.write(service.delete, tree_path(rule))


@post("/discovery-rules/{rule:str}/preview", status_code=200, summary="Preview a change of a discovery rule")
async def preview_change(request: TreeCall, rule: FromPath[str], data: JSONBody[DiscoveryChange]) -> DiscoveryPreview:
    """Show what a rule would make of the newest commit after a change; without any, what it makes next. Nothing is made."""
    return await service.preview_of(request.context.discovery, request.user, tree_path(rule), data)


@post("/discovery-rules/{rule:str}/run", status_code=200, summary="Run a discovery rule now")
async def run(request: TreeCall, rule: FromPath[str]) -> DiscoveryRuleView:
    """Let a rule look at its repository at once. What it has found is shown by the rule within moments."""
    return await request.write(service.run, tree_path(rule))
