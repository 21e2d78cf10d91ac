"""Cloud identities over HTTP: the ways into accounts in which runners are started."""

from typing import Annotated

from litestar import delete, get, patch, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.cloud_identities import IdentityChange, IdentityPolicies, IdentityReport, IdentityView, NewIdentity
from terracrew.api.fleet_jobs import FleetJob
from terracrew.api.pages import Page
from terracrew.server.api.context import TreeCall
from terracrew.server.cloud_hosted import identity_views, reporting
from terracrew.server.cloud_identities import service
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit

UsableIn = Annotated[str | None, QueryParameter(description="Only those that runners of this group may use")]


@get("/cloud-identities", summary="List cloud identities")
async def list_identities(
    request: TreeCall, usable_in: UsableIn = None, after: After = None, limit: Limit = 50
) -> Page[IdentityView]:
    """List the cloud identities of the groups whose runners the caller may see, or those that runners of a group may use: its own and
    those of the groups above it.
    """
    return await request.read(identity_views.listing, request.context.settings.issuer, usable_in, after, limit)


@post("/cloud-identities", summary="Create a cloud identity")
async def create(request: TreeCall, data: JSONBody[NewIdentity]) -> IdentityView:
    """Create a way into a cloud account. The server makes its external id and the subject of its tokens; no key is stored."""
    made = await service.create(request.context.db, request.user, data)
    issuer = request.context.settings.issuer
    return await request.context.db.read(lambda tx: identity_views.view(tx, made, issuer))


@get("/cloud-identities/{identity:str}", summary="Show a cloud identity")
async def show(request: TreeCall, identity: FromPath[str]) -> IdentityView:
    """Show a cloud identity, by its id or its path (`group/name`), with the runners that are deployed with it."""
    return await request.read(identity_views.show, tree_path(identity), request.context.settings.issuer)


@patch("/cloud-identities/{identity:str}", summary="Change a cloud identity")
async def update(request: TreeCall, identity: FromPath[str], data: JSONBody[IdentityChange]) -> IdentityView:
    """Change a cloud identity. While runners are deployed with it, its account and region stay."""
    after = await service.change(request.context.db, request.user, tree_path(identity), data)
    issuer = request.context.settings.issuer
    return await request.context.db.read(lambda tx: identity_views.view(tx, after, issuer))


@delete("/cloud-identities/{identity:str}", summary="Delete a cloud identity")
async def remove(request: TreeCall, identity: FromPath[str]) -> None:
    """Delete a cloud identity that no runner is deployed with. One that is created again has another external id and subject."""
    await request.write(service.delete, tree_path(identity))


@post("/cloud-identities/{identity:str}/test", status_code=202, summary="Test a cloud identity")
async def test(request: TreeCall, identity: FromPath[str]) -> FleetJob:
    """Queue a test of the connection. The job signs in, checks every permission that deployments need, quotas and networks, and says
    how to mend what is missing. It changes nothing in the account.
    """
    return await request.write(identity_views.test, tree_path(identity))


@get("/cloud-identities/{identity:str}/policies", summary="Show what to paste into the account")
async def policies(request: TreeCall, identity: FromPath[str]) -> IdentityPolicies:
    """Show who may use the role and what it may do, as texts to paste into the account."""
    return await request.read(identity_views.policies, tree_path(identity), request.context.settings.issuer)


@get("/cloud-identities/{identity:str}/report", summary="Show what of ours is in the account")
async def report(request: TreeCall, identity: FromPath[str]) -> IdentityReport:
    """Show what was found in the account when somebody last looked, who owns it, and what it costs a month."""
    return await request.read(reporting.last, tree_path(identity))


@post("/cloud-identities/{identity:str}/report", status_code=200, summary="Look what of ours is in the account")
async def look(request: TreeCall, identity: FromPath[str]) -> IdentityReport:
    """Ask the cloud what of ours is in the account, and show it. The answer is kept until the next look."""
    context = request.context
    return await reporting.look(
        context.db, context.cloud_calls, request.user, tree_path(identity), context.settings.issuer
    )
