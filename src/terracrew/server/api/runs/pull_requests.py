"""Pull requests over HTTP, and which users of forges are users here."""

from typing import Annotated

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from terracrew.api.pages import Page
from terracrew.api.pull_requests import (
    AllowCommit,
    ApplyPullRequest,
    ForgeUserView,
    LinkForgeUser,
    PullRequestCommand,
    PullRequestFilter,
    PullRequestListed,
    PullRequestOutcome,
    PullRequestView,
)
from terracrew.server.api.context import RunsCall
from terracrew.server.http.request import tree_path
from terracrew.server.paging import After, Limit
from terracrew.server.pull_requests import service

OfState = Annotated[PullRequestFilter, QueryParameter(description="Only those in this state")]


@get("/pull-requests", summary="List pull requests")
async def listing(
    request: RunsCall, only: OfState = "open", after: After = None, limit: Limit = 50
) -> Page[PullRequestListed]:
    """List the pull requests that touch modules which the caller may see, or that are of connections of their groups, the newest first."""
    return await request.read_in_background(service.listing, only, after, limit)


@get("/pull-requests/{pull_request:str}", summary="Show a pull request")
async def show(request: RunsCall, pull_request: FromPath[str]) -> PullRequestView:
    """Show a pull request, by its id or by `owner/repository#number`, with the modules that it touches and their plans."""
    return await request.read(service.show, tree_path(pull_request))


@post("/pull-requests/{pull_request:str}/plan", status_code=200, summary="Plan a pull request again")
async def plan(
    request: RunsCall, pull_request: FromPath[str], data: JSONBody[PullRequestCommand]
) -> PullRequestOutcome:
    """Plan modules of a pull request again. Plans that run are canceled."""
    return await service.command(request.context.pull_requests, request.user, tree_path(pull_request), "plan", data)


@post("/pull-requests/{pull_request:str}/apply", status_code=200, summary="Apply a pull request")
async def apply(request: RunsCall, pull_request: FromPath[str], data: JSONBody[ApplyPullRequest]) -> PullRequestOutcome:
    """Apply the plans of modules as they are shown, where their setting is that a command applies them. Approvals are needed as always."""
    return await service.command(request.context.pull_requests, request.user, tree_path(pull_request), "apply", data)


@post("/pull-requests/{pull_request:str}/cancel", status_code=200, summary="Cancel the jobs of a pull request")
async def cancel(
    request: RunsCall, pull_request: FromPath[str], data: JSONBody[PullRequestCommand]
) -> PullRequestOutcome:
    """Cancel plans of a pull request, and applies that have not begun."""
    return await service.command(request.context.pull_requests, request.user, tree_path(pull_request), "cancel", data)


@post("/pull-requests/{pull_request:str}/allow", status_code=200, summary="Allow the commit of a fork")
async def allow(request: RunsCall, pull_request: FromPath[str], data: JSONBody[AllowCommit]) -> PullRequestOutcome:
    """Let the newest commit of a fork be planned, with the credentials of the modules that it touches. Look at its changes first."""
    return await request.write(service.allow, tree_path(pull_request), data)


@get("/forges/{forge:str}/users", summary="List the users of a forge")
async def forge_users(request: RunsCall, forge: FromPath[str]) -> Page[ForgeUserView]:
    """List which users of the forge are users here."""
    return await request.read(service.forge_users, tree_path(forge))


@post("/forges/{forge:str}/users", summary="Link a user of a forge")
async def link_user(request: RunsCall, forge: FromPath[str], data: JSONBody[LinkForgeUser]) -> ForgeUserView:
    """Let what somebody writes on the forge be done as a user here, with all of their rights. It takes the right to take over that
    account."""
    return await request.write(service.link_user, tree_path(forge), data)


@delete("/forges/{forge:str}/users/{forge_user:str}", summary="Unlink a user of a forge")
async def unlink_user(request: RunsCall, forge: FromPath[str], forge_user: FromPath[str]) -> None:
    """Let a user of the forge, by the forge's own id of them, do nothing here any more."""
    await request.write(service.unlink_user, tree_path(forge), tree_path(forge_user))
